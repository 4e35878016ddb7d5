package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// Two instances stand behind a proxy that cuts one connection in ten, at the
// worst moments. Clients repeat what has no answer, http.Transport repeats some
// of it by itself, and each payment is sent by two clients at once. Nobody may
// be charged twice, and all answers to a payment must be the same.
func TestPaymentsThroughConnectionsThatAreCutAreMadeOnce(t *testing.T) {
	addr := redistest.Start(t).Addr
	for _, problem := range pay(t, testsize.Pick(1000, 150), func(b *bank) http.Handler {
		return lockmw.Idempotent(onRedis(t, addr), keyfunc.Header("X-User"), time.Hour)(b)
	}) {
		t.Error(problem)
	}
	rdb := redistest.Client(t, addr)
	for _, name := range rdb.Keys(t.Context(), "*").Val() {
		if rdb.PTTL(t.Context(), name).Val() == -1 { // -2: it has ended meanwhile
			t.Errorf("%s has no TTL", name)
		}
	}
}

// The planted fault: without the middleware, or with a lock alone, the same
// clients are charged twice.
func TestPaymentsWithoutIdempotentAreFoundTwice(t *testing.T) {
	addr := redistest.Start(t).Addr
	for name, instance := range map[string]func(*bank) http.Handler{
		"nothing": func(b *bank) http.Handler { return b },
		"a lock": func(b *bank) http.Handler {
			return lockmw.KeyFunc(onRedis(t, addr), keyfunc.Header("Idempotency-Key"))(b)
		},
	} {
		if len(pay(t, 20, instance)) == 0 {
			t.Errorf("%s: no problem was found", name)
		}
	}
}

// pay makes payments through two instances, and returns what went wrong.
func pay(t *testing.T, payments int, instance func(*bank) http.Handler) (problems []string) {
	t.Helper()
	bank := &bank{charges: map[string]int{}}
	proxy := newCuttingProxy(t, bank.serve(t, instance(bank)), bank.serve(t, instance(bank)))
	work := make(chan string) // closed when all payments are taken
	go func() {
		defer close(work)
		for i := range payments {
			work <- fmt.Sprint("payment-", i)
		}
	}()
	var mu sync.Mutex // guards problems
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for name := range work {
				found := payTwice(t, proxy, name)
				mu.Lock()
				problems = append(problems, found...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for name, n := range bank.charges {
		if n > 1 {
			problems = append(problems, fmt.Sprintf("%s was charged %d times", name, n))
		}
	}
	t.Logf("%d payments; %d requests of clients, %d at the instances, %d cuts; %d problems", len(bank.charges),
		proxy.sent.Load(), bank.requests.Load(), proxy.cuts.Load(), len(problems))
	if len(bank.charges) != payments || proxy.cuts.Load() == 0 {
		t.Errorf("%d payments were made with %d cuts, want %d", len(bank.charges), proxy.cuts.Load(), payments)
	}
	return problems
}

// bank counts charges.
type bank struct {
	requests atomic.Int64

	mu      sync.Mutex // guards charges
	charges map[string]int
}

// ServeHTTP charges whatever becomes of the request.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.charges[string(name)]++
	n := len(b.charges)
	b.mu.Unlock()
	w.Header().Set("Location", fmt.Sprint("/charges/", rand.Uint64()))
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "%s is charge %d %s", name, n, strings.Repeat(".", 500))
}

// onRedis returns the guard of an instance. No lease ends and no wait fails
// only because the machine is busy.
func onRedis(t *testing.T, addr string) *guard.Guard {
	t.Helper()
	g, err := guard.New(redislocker.New(redistest.Client(t, addr)), guard.WithTTL(time.Minute),
		guard.WithMaxWait(time.Minute), guard.WithMaxWaiters(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

// serve returns the address of an instance that answers with h.
func (b *bank) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// payTwice lets two clients send the same payment until each has two answers.
// All of them must be the same, also those that were cut. It returns what is
// wrong.
func payTwice(t *testing.T, p *cuttingProxy, name string) (problems []string) {
	t.Helper()
	var mu sync.Mutex // guards whole, parts and problems
	whole := map[string]bool{}
	var parts []string
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for answers, tries := 0, 0; answers < 2 && tries < 3000; tries++ {
				text, status, err := p.pay(t.Context(), name)
				mu.Lock()
				switch {
				case status == http.StatusCreated && err == nil:
					whole[text] = true
					answers++
				case status == http.StatusCreated:
					parts = append(parts, text)
				case status != 0 && status < 500:
					problems = append(problems, fmt.Sprintf("%s: got %d %s", name, status, text))
				}
				mu.Unlock()
				if status != http.StatusCreated || err != nil {
					time.Sleep(10 * time.Millisecond) // the pause of a client
				}
			}
		})
	}
	wg.Wait()
	if len(whole) != 1 {
		problems = append(problems, fmt.Sprintf("%s has %d different answers: %.200v", name, len(whole), whole))
	}
	for text := range whole {
		for _, part := range parts {
			if !strings.HasPrefix(text, part) {
				problems = append(problems, fmt.Sprintf("%s: the answer %.100q was %.100q before", name, text, part))
			}
		}
	}
	return problems
}

// cuttingProxy carries connections to the instances in turn.
type cuttingProxy struct {
	*faultpipe.Pipe

	client     *http.Client
	sent, cuts atomic.Int64
	opened     atomic.Int64
}

func newCuttingProxy(t *testing.T, instances ...string) *cuttingProxy {
	t.Helper()
	pipe, err := faultpipe.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 20}
	p := &cuttingProxy{Pipe: pipe, client: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
	pipe.Serve(func(client net.Conn) (faultpipe.Link, error) {
		at := instances[int(p.opened.Add(1))%len(instances)]
		server, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
		return &cutLink{proxy: p, client: client, server: server}, err
	})
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		pipe.Close()
	})
	return p
}

// pay sends a payment once. If the answer was cut it returns its beginning, the
// status and an error.
func (p *cuttingProxy) pay(ctx context.Context, name string) (text string, status int, err error) {
	p.sent.Add(1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Addr+"/pay", strings.NewReader(name))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("X-User", "ann")
	r.Header.Set("Idempotency-Key", name)
	res, err := p.client.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	head := res.Header.Get("Location") + " "
	if res.ContentLength >= 0 && int64(len(body)) < res.ContentLength && err == nil {
		err = errors.New("the answer is short")
	}
	return head + string(body), res.StatusCode, err
}

// What a cut does to a request and its answer.
const (
	noCut        = iota
	cutRequest   // before the instance gets it
	cutAfter     // when the instance has it
	cutAnswer    // when the answer comes
	cutMidAnswer // in the middle of the answer
)

// cutLink is a connection that may be cut at each request.
type cutLink struct {
	proxy          *cuttingProxy
	client, server net.Conn
	cut            atomic.Int32 // of the last request, which Up draws for Down
}

func (l *cutLink) Ends() (client, server net.Conn) { return l.client, l.server }

func (l *cutLink) Up(b []byte) bool {
	cut := int32(noCut)
	if rand.IntN(10) == 0 {
		cut = cutRequest + rand.Int32N(4)
		l.proxy.cuts.Add(1)
	}
	l.cut.Store(cut)
	if cut == cutRequest {
		return false
	}
	_, err := l.server.Write(b)
	return err == nil && cut != cutAfter
}

func (l *cutLink) Down(b []byte) bool {
	switch l.cut.Load() {
	case cutAnswer:
		return false
	case cutMidAnswer:
		_, _ = l.client.Write(b[:len(b)/2])
		return false
	}
	_, err := l.client.Write(b)
	return err == nil
}

package etcdlocker

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// deaf is a Waker that no claim needs.
type deaf = lockerkit.Deaf

// nobody is a client without endpoints.
func nobody(t *testing.T) *clientv3.Client {
	t.Helper()
	return clientv3.NewCtxClient(t.Context())
}

func TestARefusalIsFinalAndSaysWhatToDo(t *testing.T) {
	for _, err := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrGRPCPermissionDenied} {
		got := New(nobody(t)).rows.tryError(rpctypes.Error(err))
		if errors.Is(got, locker.ErrUnavailable) || !strings.Contains(got.Error(), "rights") {
			t.Errorf("%v: got %v", err, got)
		}
		if held := New(nobody(t)).rows.unclear(rpctypes.Error(err)); !errors.Is(held, locker.ErrUnavailable) {
			t.Errorf("%v for a holder: %v", err, held)
		}
	}
	got := New(nobody(t)).rows.tryError(rpctypes.Error(rpctypes.ErrGRPCTooManyOps))
	if errors.Is(got, locker.ErrUnavailable) ||
		strings.Contains(got.Error(), "rights") || !strings.Contains(got.Error(), "--max-txn-ops") {
		t.Errorf("too many operations: got %v", got)
	}
	for _, err := range []error{rpctypes.ErrNoSpace, rpctypes.ErrNoLeader, context.DeadlineExceeded} {
		if got := New(nobody(t)).rows.tryError(err); !errors.Is(got, locker.ErrUnavailable) {
			t.Errorf("%v: got %v, want ErrUnavailable", err, got)
		}
	}
	got = New(nobody(t)).rows.tryError(errors.Join(errUnsent, context.Canceled))
	if !errors.Is(got, locker.ErrUnsent) {
		t.Errorf("not sent: got %v", got)
	}
}

func TestOnlyTheSilenceOfAllMembersIsSilence(t *testing.T) {
	gone := status.Error(codes.Unavailable, "connection refused")
	one := New(nobody(t)).rows
	one.single = true
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no answer in time":   {context.DeadlineExceeded, true},
		"nobody listens":      {gone, true},
		"a broken connection": {status.Error(codes.Unavailable, "error reading from server: EOF"), false},
		"no leader":           {rpctypes.Error(rpctypes.ErrGRPCNoLeader), false},
		"not sent":            {errors.Join(errUnsent, context.DeadlineExceeded), false},
		"given up":            {context.Canceled, false},
	} {
		got := one.tryError(c.err)
		if errors.Is(got, locker.ErrSilent) != c.want || !errors.Is(got, locker.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrSilent: %v", name, got, c.want)
		}
	}

	if errors.Is(New(nobody(t)).rows.tryError(gone), locker.ErrSilent) {
		t.Error("one of several endpoints may have answered")
	}
	l := New(nobody(t), WithMembers(nobody(t))).rows
	l.single = true
	for n, want := range []bool{false, false, true} { // the last answer is that of the member before the first change
		l.member.Store(int32(n))
		if errors.Is(l.tryError(gone), locker.ErrSilent) != want {
			t.Errorf("%d of 2 members silent: want ErrSilent: %v", n, want)
		}
	}
	l.heard()
	if errors.Is(l.tryError(gone), locker.ErrSilent) {
		t.Error("a member answered")
	}
}

// A write asks for an etcd lease first. The guard takes what was not sent for
// no silence.
func TestALeaseThatNobodyGrantsIsSilence(t *testing.T) {
	l, err := locker.FromDSN("etcd://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	r := l.(*Locker).rows
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c := &rowlocker.Change{Rows: []rowlocker.Row{{Key: "k", Value: []byte("o/{}"), KeepFor: time.Second}}}
	err = r.Swap(ctx, []*rowlocker.Change{c})
	if !errors.Is(err, locker.ErrSilent) || errors.Is(err, locker.ErrUnsent) {
		t.Errorf("%v, want ErrSilent without ErrUnsent", err)
	}
}

func TestACallerInAHurryDoesNotChangeTheMember(t *testing.T) {
	dsn, err := locker.FromDSN("etcd://127.0.0.1:1,127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	if err := dsn.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dsn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	l := dsn.(*Locker).rows
	l.doubt(l.client(), context.DeadlineExceeded, time.Now().Add(time.Hour))
	if l.member.Load() != 0 {
		t.Error("a request that had no time to be answered changed the member")
	}
	for n := range int32(2) {
		if l.allSilent() {
			t.Errorf("all are silent after %d changes", n)
		}
		l.doubt(l.client(), context.DeadlineExceeded, time.Now().Add(-fair))
	}
	if l.member.Load() != 2 || !l.allSilent() {
		t.Errorf("%d changes of members that do not answer, all silent: %v", l.member.Load(), l.allSilent())
	}
}

// Callers that compute their TTLs use many.
func TestASessionIsForgottenWhenItsLeaseHasEnded(t *testing.T) {
	l := New(nil).rows
	old, live := l.sessionFor(time.Hour), l.sessionFor(2*time.Hour)
	old.id, old.life, old.sent = 1, time.Hour, time.Now().Add(-2*time.Hour)
	live.id, live.life, live.sent = 2, 2*time.Hour, time.Now()
	const many = 10_000
	for n := range many {
		s := l.sessionFor(3*time.Hour + time.Duration(n)*time.Second)
		s.id, s.life, s.sent = 3, time.Second, time.Now().Add(-time.Minute)
	}
	if n := len(l.keys); n > many/10 {
		t.Errorf("%d sessions are kept of %d, want those that have a lease and a few", n, many)
	}
	if l.sessionFor(2*time.Hour) != live {
		t.Error("a session whose lease lives is forgotten")
	}
	if l.sessionFor(time.Hour) == old {
		t.Error("a session whose lease has ended is kept")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, l := range map[string]*Locker{
		"no client": New(nil),
		"no prefix": New(&clientv3.Client{}, WithPrefix("")),
		"no member": New(&clientv3.Client{}, WithMembers(nil)),
	} {
		if err := l.Open(deaf{}); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
}

// Without a comparison a transaction always writes. That this one never holds
// is tested on a server.
func TestWithoutALeaseHeldIsNotEmpty(t *testing.T) {
	if held := New(nil).Held(t.Context()); len(held) != 1 {
		t.Errorf("%+v", held)
	}
}

func TestAMemberIsJudgedByItsStatus(t *testing.T) {
	for want, change := range map[string]func(s *clientv3.StatusResponse){
		"":                      func(*clientv3.StatusResponse) {},
		FindingQuorum:           func(s *clientv3.StatusResponse) { s.Leader = 0 },
		FindingVersion:          func(s *clientv3.StatusResponse) { s.Version = "3.5.2" },
		FindingSpace:            func(s *clientv3.StatusResponse) { s.Errors = []string{"memberID:1 alarm:NOSPACE "} },
		FindingSpace + " early": func(s *clientv3.StatusResponse) { s.DbSize = 90 },
	} {
		s := &clientv3.StatusResponse{Version: "3.6.9", Leader: 1, DbSize: 10, DbSizeQuota: 100}
		change(s)
		found, rest := locker.Findings(judgeStatus("a:1", s))
		want, _, _ = strings.Cut(want, " ")
		if rest != nil || (want == "") != (len(found) == 0) || len(found) > 0 && found[0].Name != want {
			t.Errorf("%v: %v, %v, want %q", s, found, rest, want)
		}
	}
	for version, old := range map[string]bool{
		"3.4.30": true, "3.5.2": true, "3.5.3": false, "3.6.0-rc.1": false, "3.7.3": false, "4.0.0": false,
		"": false, "x": false,
	} {
		if older(version, "3.5.3") != old {
			t.Errorf("%q is older than 3.5.3: %v", version, !old)
		}
	}
}

func TestCompactionIsMissedWhenOldRevisionsAreThere(t *testing.T) {
	l := New(nil).rows
	if err := l.judgeCompaction(rpctypes.ErrCompacted); err != nil {
		t.Error(err)
	}
	if found, _ := locker.Findings(l.judgeCompaction(nil)); len(found) != 1 || found[0].Name != FindingCompaction {
		t.Errorf("%v", found)
	}
	if err := l.judgeCompaction(rpctypes.ErrNoLeader); !errors.Is(err, locker.ErrUnavailable) {
		t.Error(err)
	}
}

func TestAnErrorNamesTheServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, addr := range []string{"127.0.0.1:1", mute.Addr().String()} {
		l, err := locker.FromDSN("etcd://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Open(deaf{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute, Limit: 1}
		_, err = l.Acquire(ctx, c, locker.Try{})
		if err == nil || !strings.Contains(err.Error(), "no answer from http://"+addr) {
			t.Errorf("%s: %v, want an error that names it", addr, err)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := l.Check(ctx, time.Minute); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: Check: %v, want an error that names it", addr, err)
		}
		cancel()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// holds reports whether the comparisons hold for keys with these values.
func holds(ifs []clientv3.Cmp, kvs map[string]string) bool {
	return !slices.ContainsFunc(ifs, func(one clientv3.Cmp) bool {
		c := compareOf(&one)
		value, there := kvs[string(c.GetKey())]
		switch c.GetResult() {
		case etcdserverpb.Compare_GREATER:
			return !there || c.GetTarget() == etcdserverpb.Compare_VALUE && value <= string(c.GetValue())
		case etcdserverpb.Compare_LESS:
			return !there || value >= string(c.GetValue())
		}
		return true
	})
}

// compareOf returns what is sent for a comparison. In older clients a Cmp is of
// the same kind.
func compareOf(one *clientv3.Cmp) *etcdserverpb.Compare {
	if c, ok := any(one).(interface{ GetCompare() *etcdserverpb.Compare }); ok {
		return c.GetCompare()
	}
	return reflect.ValueOf(one).Convert(reflect.TypeFor[*etcdserverpb.Compare]()).Interface().(*etcdserverpb.Compare)
}

// A process that has not heard of it takes a row for open that was closed, or
// its share for held that was taken from it. Planted: a Join is not compared.
func TestAShareComesAndGoesOnlyBesideAnOpenRow(t *testing.T) {
	r := New(nobody(t)).rows
	s := r.sessionFor(time.Minute)
	s.id, s.life, s.sent = 1, time.Hour, time.Now()
	ticket := r.ticketKey("k", "s.o")
	for name, c := range map[string]struct {
		row  string
		held bool // the ticket stands there
		want map[string]bool
	}{
		"open":      {"!/{}", false, map[string]bool{"comes": true, "stays": false, "goes": false}},
		"shared":    {"!/{}", true, map[string]bool{"comes": true, "stays": true, "goes": true}},
		"closed":    {"/{}", true, map[string]bool{"comes": false, "stays": false, "goes": false}},
		"owned":     {"o/{}", true, map[string]bool{"comes": false, "stays": false, "goes": false}},
		"not there": {"", false, map[string]bool{"comes": false, "stays": false, "goes": false}},
	} {
		kvs := map[string]string{}
		if c.row != "" {
			kvs[r.rowKey("k")] = c.row
		}
		if c.held {
			kvs[ticket] = "{}"
		}
		for what, want := range c.want {
			j := &rowlocker.Join{
				Key: "k", Ticket: rowlocker.Ticket{Name: "s.o", Value: []byte("{}")}, Open: true,
				Held: what != "comes", Leave: what == "goes", KeepFor: time.Minute,
			}
			s := &step{rows: r, part: &part{}, ctx: t.Context(), leases: map[*session]clientv3.LeaseID{}}
			if err := s.plan(&rowlocker.Change{Join: j}); err != nil {
				t.Fatal(err)
			}
			if got := holds(s.ifs, kvs); got != want {
				t.Errorf("a share %s, the row is %s: done %v, want %v", what, name, got, want)
			}
		}
	}
}

// refusing is a server that refuses requests which delete a key, as etcd
// refuses those that are too large.
type refusing struct {
	clientv3.KV

	key string
}

func (r refusing) Txn(context.Context) clientv3.Txn { return &refusedTxn{key: r.key} }

type refusedTxn struct {
	key  string
	then []clientv3.Op
}

func (x *refusedTxn) If(...clientv3.Cmp) clientv3.Txn      { return x }
func (x *refusedTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.then = ops; return x }
func (x *refusedTxn) Else(...clientv3.Op) clientv3.Txn     { return x }

func (x *refusedTxn) Commit() (*clientv3.TxnResponse, error) {
	if x.deletes(x.then) {
		return nil, rpctypes.ErrRequestTooLarge
	}
	return &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{}, Succeeded: true}, nil
}

func (x *refusedTxn) deletes(ops []clientv3.Op) bool {
	return slices.ContainsFunc(ops, func(op clientv3.Op) bool {
		_, then, _ := op.Txn()
		return op.IsDelete() && string(op.KeyBytes()) == x.key || x.deletes(then)
	})
}

// etcd refuses the whole request.
func TestAChangeThatIsRefusedFailsNoOther(t *testing.T) {
	client := nobody(t)
	r := New(client).rows
	client.KV = refusing{key: r.rowKey("refused")}
	var changes []*rowlocker.Change
	for _, key := range []string{"a", "refused", "b"} {
		changes = append(changes, &rowlocker.Change{Rows: []rowlocker.Row{{Key: key, Version: 7}}})
	}
	err := r.Swap(t.Context(), changes)
	for i, c := range changes {
		if bad := i == 1; err != nil || c.Done == bad || errors.Is(c.Err, rpctypes.ErrRequestTooLarge) != bad {
			t.Errorf("change %d: done %v, %v, %v", i, c.Done, c.Err, err)
		}
	}
}

package natslocker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Locker is a locker.Locker in a bucket of NATS JetStream.
type Locker struct{ *rowlocker.Locker }

// New returns a Locker in the bucket, and sends nothing. The connection stays
// open when the Locker is closed.
func New(nc *nats.Conn, bucket string) *Locker {
	return &Locker{rowlocker.New(&rows{bucket: bucket, nc: nc, ready: make(chan struct{})})}
}

const (
	margin   = time.Second  // by which the clocks of two servers may differ
	held     = "Guard-Held" // header: for how long the key may be owned
	underWay = 10164        // code of a refusal by a write that is under way
	flights  = 128          // requests for one call at a time

	connectPause = 5 * time.Millisecond // between two looks whether there is a connection
)

// rows are those of a bucket. A row is the last message on the subject of its
// key, its version the sequence of the message, and its Tag the same. A message
// without data marks a deletion: there is no row then, but a Tag.
type rows struct {
	bucket string
	dial   func() (*nats.Conn, error) // makes nc, of which the locker is then the owner; nil: it is the caller's

	ready    chan struct{} // closed when nc or err is set
	nc       *nats.Conn
	err      error
	answered atomic.Int64 // when the last answer came, in ns
}

func (*rows) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: "natslocker", Blind: true, Single: true, Workers: 8, Batch: 16,
		// A TTL is rounded up to seconds, and a server deletes once a second.
		Limits: locker.Limits{Late: locker.LookEvery, LateForOthers: margin + 3*time.Second}, Findings: findings,
	}
}

func (r *rows) Open() error {
	if r.bucket == "" || encode(r.bucket) != r.bucket {
		return lockerkit.Invalid("natslocker", "the bucket needs a name of letters, digits, '-' and '_'")
	}
	if r.dial == nil {
		if r.nc == nil {
			return lockerkit.Invalid("natslocker", "the connection is nil")
		}
		close(r.ready)
		return nil
	}
	go func() {
		r.nc, r.err = r.dial()
		close(r.ready)
	}()
	return nil
}

func (r *rows) Close() {
	if <-r.ready; r.dial != nil && r.nc != nil {
		r.nc.Close()
	}
}

// subject returns the subject of a key, or of all.
func (r *rows) subject(name string) string { return "$KV." + r.bucket + "." + name }

// encode writes a key as one token of a subject, as url.QueryEscape does but
// with '=' for '%'.
func encode(key string) string { return names.Replace(url.QueryEscape(key)) }

var names = strings.NewReplacer("%", "=", ".", "=2E", "~", "=7E", "+", "=20")

func decode(name string) (string, error) {
	return url.QueryUnescape(strings.ReplaceAll(name, "=", "%"))
}

// answer is one to a write, to MSG.GET, or to INFO.
type answer struct {
	Error   *jetstream.APIError
	Seq     int64
	Message struct {
		Seq        int64
		Data, Hdrs []byte
		Time       time.Time
	}
	jetstream.StreamInfo
	Total int
}

var errUnsent = fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrUnsent)

// ask sends m.
func (r *rows) ask(ctx context.Context, m *nats.Msg) (is answer, err error) {
	if err := r.connected(ctx); err != nil {
		return is, err
	}
	got, err := r.nc.RequestMsgWithContext(ctx, m)
	if err == nil {
		r.answered.Store(time.Now().UnixNano())
		err = json.Unmarshal(got.Data, &is)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		err = fmt.Errorf("natslocker: nobody serves the bucket, or it has no leader now: %w: %w", errUnsent, err)
	case errors.Is(err, nats.ErrMaxPayload):
		err = fmt.Errorf("natslocker: a record is too large for a message: raise max_payload: %w", err)
	case err != nil:
		err = fmt.Errorf("natslocker: no answer, or none that can be read: %w: %w", locker.ErrUnavailable, err)
	case is.Error != nil && is.Error.Code == 503: // no leader, or no resources
		err = fmt.Errorf("natslocker: the server cannot serve now: %w: %w", locker.ErrUnavailable, is.Error)
	case is.Error != nil:
		err = fmt.Errorf("natslocker: the server refused a request: %w", is.Error)
	}
	return is, err
}

// connected waits for a connection. That none comes in time is silence.
func (r *rows) connected(ctx context.Context) error {
	select {
	case <-r.ready:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("natslocker: there was no time to ask: %w: %w", errUnsent, err)
	} else if r.err != nil {
		return fmt.Errorf("natslocker: no client can be made: %w", r.err)
	}
	for !r.nc.IsConnected() {
		if r.nc.IsClosed() {
			return fmt.Errorf("natslocker: the connection is closed: %w", errUnsent)
		}
		if !lockerkit.Pause(connectPause, ctx.Done()) {
			return fmt.Errorf("natslocker: there is no connection: %w: %w: %w", locker.ErrUnavailable, locker.ErrSilent,
				ctx.Err())
		}
	}
	return nil
}

// code returns the code of the error of an answer, or 0.
func code(err error) jetstream.ErrorCode {
	if e := (*jetstream.APIError)(nil); errors.As(err, &e) {
		return e.ErrorCode
	}
	return 0
}

// api asks the leader of the stream.
func (r *rows) api(ctx context.Context, what, request string) (answer, error) {
	return r.ask(ctx, &nats.Msg{Subject: "$JS.API.STREAM." + what + ".KV_" + r.bucket, Data: []byte(request)})
}

// load reads a row from the leader, because a follower may be behind.
func (r *rows) load(ctx context.Context, key string) (row rowlocker.Row, err error) {
	row.Key = key
	is, err := r.api(ctx, "MSG.GET", fmt.Sprintf(`{"last_by_subj":%q}`, r.subject(encode(key))))
	if m := is.Message; code(err) == jetstream.JSErrCodeMessageNotFound {
		return row, nil
	} else if row.Tag = strconv.FormatInt(m.Seq, 10); err == nil && len(m.Data) > 0 {
		row.Version, row.Value = m.Seq, m.Data
		h, _ := nats.DecodeHeadersMsg(m.Hdrs)
		d, no := time.ParseDuration(h.Get(held))
		if no == nil && time.Since(m.Time) > d { // ask the server's clock
			is, err = r.api(ctx, "INFO", "")
			row.Vacant = is.TimeStamp.Sub(m.Time) > d+margin
		}
	}
	return row, err
}

func (r *rows) Load(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	found := make([]rowlocker.Row, len(keys))
	err := lockerkit.Each(len(keys), flights, func(i int) (err error) {
		found[i], err = r.load(ctx, keys[i])
		return err
	})
	return found, err
}

func (r *rows) Scan(ctx context.Context, after string, n int) ([]rowlocker.Row, error) {
	var keys []string
	for seen, total := 0, 1; seen < total; {
		page, err := r.api(ctx, "INFO", fmt.Sprintf(`{"subjects_filter":%q,"offset":%d}`, r.subject(">"), seen))
		if err != nil {
			return nil, err
		}
		for subject := range page.State.Subjects {
			key, err := decode(strings.TrimPrefix(subject, r.subject("")))
			if err == nil && key > after {
				keys = append(keys, key)
			}
		}
		seen, total = seen+max(1, len(page.State.Subjects)), page.Total
	}
	slices.Sort(keys)
	return r.Load(ctx, keys[:min(n, len(keys))])
}

func (r *rows) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	return lockerkit.Each(len(changes), flights, func(i int) error {
		r.swap(ctx, changes[i])
		return nil
	})
}

// swap publishes the row, if the last message on its subject is the right one.
// A write under way refuses others too, before the leader shows it.
func (r *rows) swap(ctx context.Context, c *rowlocker.Change) {
	row := &c.Rows[0]
	ack, err := r.ask(ctx, r.message(row))
	c.Done, c.Current, c.Err = err == nil, nil, err
	switch code(err) {
	case jetstream.JSErrCodeStreamWrongLastSequence, underWay:
		now, err := r.load(ctx, row.Key)
		if c.Current, c.Err = []rowlocker.Row{now}, nil; err != nil {
			c.Err = fmt.Errorf("%w: %w", errUnsent, err)
		}
	}
	if c.Done {
		c.Version, row.Tag = ack.Seq, strconv.FormatInt(ack.Seq, 10)
		for _, t := range c.Tell { // a hint
			_ = r.nc.Publish(r.ear(t.To)+encode(row.Key)+"."+row.Tag, row.Value)
		}
	}
}

// message returns the message that writes a row.
func (r *rows) message(row *rowlocker.Row) *nats.Msg {
	m := &nats.Msg{Subject: r.subject(encode(row.Key)), Data: row.Value, Header: nats.Header{}}
	seconds := int64((min(row.KeepFor, math.MaxInt64/2) + margin + time.Second - 1) / time.Second)
	if row.Value == nil {
		m.Header.Set("KV-Operation", "DEL")
		seconds = 1
	} else if row.HeldFor < row.KeepFor {
		m.Header.Set(held, row.HeldFor.String())
	}
	m.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(seconds, 10)+"s")
	tag := strconv.FormatInt(row.Version, 10)
	if row.Version == 0 && row.Tag != "" { // what a deletion has left
		tag = row.Tag
	}
	if row.Version != rowlocker.Any {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, tag)
	}
	return m
}

// ear returns the subject of messages to instance, up to key and version.
func (r *rows) ear(instance string) string { return "guard." + r.bucket + "." + encode(instance) + "." }

// Listen hears until the connection breaks.
func (r *rows) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	if <-r.ready; r.err != nil {
		return
	}
	down := r.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer r.nc.RemoveStatusListener(down)
	sub, err := r.nc.Subscribe(r.ear(instance)+"*.*", func(m *nats.Msg) {
		name, tag, _ := strings.Cut(strings.TrimPrefix(m.Subject, r.ear(instance)), ".")
		key, err := decode(name)
		version, bad := strconv.ParseInt(tag, 10, 64)
		if err == nil && bad == nil {
			hear(rowlocker.Row{Key: key, Version: version, Tag: tag, Value: m.Data})
		}
	})
	defer func() { _ = sub.Unsubscribe() }()
	if err != nil || r.nc.FlushTimeout(5*time.Second) != nil {
		return
	}
	awake()
	select {
	case <-down:
	case <-ctx.Done():
	}
}

// Unanswered says ErrSilent if nothing has come since then.
func (r *rows) Unanswered(since time.Time, err error) error {
	if r.answered.Load() < since.UnixNano() {
		err = fmt.Errorf("%w: %w", locker.ErrSilent, err)
	}
	return fmt.Errorf("natslocker: no answer in time: %w: %w", locker.ErrUnavailable, err)
}

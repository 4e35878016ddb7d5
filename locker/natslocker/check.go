package natslocker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// findings are the names of what Check finds.
var findings = []string{
	"jetstream", "bucket", "rights", "ttl", "history", "eviction", "replicas", "payload",
	rowlocker.FindingRoundTrip,
}

func (r *rows) Check(ctx context.Context, _, _ time.Duration, failed error) error {
	is, err := r.api(ctx, "INFO", "")
	select {
	case <-r.ready:
	default: // not even a connection
		return errors.Join(failed, err)
	}
	if r.err != nil {
		return err
	}
	var found []error
	for _, f := range r.judge(&is.Config, failed, err) {
		if f.is {
			found = append(found, &locker.Finding{Name: f.name, Severity: f.severity, Text: "natslocker: " + f.text})
			if f.severity == locker.Refuse {
				err, failed = nil, nil // because of this
			}
		}
	}
	return errors.Join(append(found, failed, err)...)
}

// judgement is one finding, if it is so.
type judgement struct {
	is         bool
	name, text string
	severity   locker.Severity
}

// judge returns what may be found in the settings of the bucket, or in the
// errors of the first acquire and of the question for the settings.
func (r *rows) judge(c *jetstream.StreamConfig, failed, err error) []judgement {
	few, memory := c.Replicas < 3, c.Storage == jetstream.MemoryStorage
	return []judgement{
		{code(err) == jetstream.JSErrCodeStreamNotFound, "bucket", "the bucket is missing", locker.Refuse},
		{
			errors.Is(err, nats.ErrNoResponders) || code(err) == jetstream.JSErrCodeJetStreamNotEnabledForAccount,
			"jetstream",
			"the server has no JetStream for this account", locker.Refuse,
		},
		{
			(err != nil || failed != nil) && errors.Is(r.nc.LastError(), nats.ErrPermissionViolation),
			"rights",
			fmt.Sprintf("the user lacks a right: %v", r.nc.LastError()), locker.Refuse,
		},
		{err == nil && !c.AllowMsgTTL, "ttl", "the bucket does not take the TTL of a message", locker.Refuse},
		{
			c.SubjectDeleteMarkerTTL > 0 || c.MaxAge > 0, "ttl",
			"the bucket has a TTL of its own, or markers of TTLs that ended, which may delete a new lease",
			locker.Refuse,
		},
		{
			err == nil && c.MaxMsgsPerSubject != 1, "history",
			"the bucket has a history, from which old leases come back", locker.Refuse,
		},
		{
			c.Discard != jetstream.DiscardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0), "eviction",
			"the bucket deletes leases when it is full", locker.Refuse,
		},
		{
			err == nil && few && memory, "replicas",
			"the bucket is in the memory of fewer than three servers: a restart loses leases", locker.Refuse,
		},
		{
			err == nil && few != memory, "replicas",
			"the bucket is not on the disks of three servers: a crash of machines may lose leases", locker.Warn,
		},
		{
			r.nc.MaxPayload() < locker.MaxRecord*3/2, "payload",
			"the largest records do not fit into a message: set max_payload to 2MB", locker.Warn,
		},
	}
}

package watermilllock

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
)

// putOffUntil is the key of the metadata of a message that has been put off
// here. Its value is that of delay.DelayedUntilKey. It tells such a message from
// one that its publisher has delayed, about which Key does nothing.
const putOffUntil = "guard_put_off_until"

// longest is the longest delay of putOff, so that a wrong clock can do no more.
const longest = 91 * time.Second

// putOff writes into the metadata that msg is to come back after d at least. The
// metadata has whole seconds.
func putOff(msg *message.Message, d time.Duration) {
	if msg.Metadata == nil {
		msg.Metadata = message.Metadata{}
	}
	delay.Message(msg, delay.Until(time.Now().UTC().Add(d+time.Second).Truncate(time.Second)))
	msg.Metadata.Set(putOffUntil, msg.Metadata.Get(delay.DelayedUntilKey))
}

// untilDue waits until the delay of a message that has been put off is over, if
// its broker has not done so, and takes it off the message. It returns the cause
// if the message's context ends first.
func untilDue(msg *message.Message) error {
	until, err := time.Parse(time.RFC3339, msg.Metadata.Get(putOffUntil))
	if err != nil {
		return nil // it has not been put off
	}
	timer := time.NewTimer(min(time.Until(until), longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-msg.Context().Done():
		return context.Cause(msg.Context())
	}
	for _, key := range []string{putOffUntil, delay.DelayedUntilKey, delay.DelayedForKey} {
		delete(msg.Metadata, key)
	}
	return nil
}

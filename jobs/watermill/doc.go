// Package watermilllock lets one Watermill message at a time work on a key,
// across all worker processes.
//
//	order := func(msg *message.Message) string { return guard.Key("order", msg.Metadata.Get("order")) }
//	router.AddMiddleware(watermilllock.Key(g, order))
//
// A message whose key is held is nacked. So it comes back later, with a delay
// of 1 s to 91 s. With [WithDrop] it is acked instead, and lost on purpose.
//
// # Who keeps the delay
//
// The delay stands in the metadata that package components/delay of Watermill
// has for it. The delayed requeuers of watermill-sql keep it. The subscribers
// of Redis Streams and Kafka give a nacked message back at once, with its
// metadata. There the middleware itself waits until the time has come. Such a
// subscriber has no other message meanwhile. So [WithWait] costs nothing more
// there, and the message gets its key sooner.
//
// Other brokers forget the metadata, and give the message back at once, again
// and again. For NATS set its subscriber's NakDelay. The subscriber of RabbitMQ
// has nothing like it, so use [WithWait]. The same is true for gochannel. It
// works within one process, and loses its messages when the process ends.
//
// # Partitions
//
// Where one process gets all messages of a key, give the guard
// [guard.WithLinger]. The next message of a key then costs no request.
//
// # Order of the middleware
//
// Retry and PoisonQueue stand before Key, and should leave alone what has not
// begun:
//
//	middleware.Retry{ShouldRetry: func(p middleware.RetryParams) bool { return watermilllock.IsFailure(p.Err) }}
//	middleware.PoisonQueueWithFilter(pub, "poison", watermilllock.IsFailure)
//
// ShouldRetry is of Watermill 1.4.7. Without it Retry tries a message whose key
// is held as often as any other. The middleware of a delayed requeuer stands
// before Key too, and takes every error. A Deduplicator stands after Key.
// Otherwise it takes a message that comes back for a duplicate.
//
// # At least once
//
// A lost lease ends the context of the message, and the message is nacked. It
// may have been worked on, and comes back. So does the message of a worker that
// died, when its broker has noticed that. A turn ends after MaxHold, 60 s by
// default. The brokers have a time of their own, after which they give a
// message to another consumer: MaxIdleTime of Redis Streams, 60 s by default.
// Make it longer than MaxHold and the waits together, or the message is worked
// on twice.
//
// Messages that a handler returns are published after the key was released. If
// the next holder must find them, publish them in the handler.
//
// # What is told
//
// The guard logs each dropped message at level Info. Watermill's router logs
// each nacked message at level Error. The metric guard.waits of package tracing
// counts both under the outcome timeout, by the name of the guard.
package watermilllock

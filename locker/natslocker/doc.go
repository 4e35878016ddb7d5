// Package natslocker keeps the locks of package guard in NATS JetStream.
package natslocker

package redislocker

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// WithClientName sets what the locker's own connections are called in CLIENT LIST: printable ASCII without blanks, or ""
// for no name, which saves a round trip for each new connection. Default "guard". A user without the right to name its
// connections does without. A ClientName that the caller's client has is taken over instead, and a client of WithClient
// keeps its own.
func WithClientName(name string) Option {
	return optionFunc(func(s *settings) { s.name = name })
}

func (s *settings) options(o *redis.Options) *redis.Options {
	own := ownOptions(o)
	if own.ClientName == "" {
		own.OnConnect = s.naming()
	}
	own.OnConnect = s.admitting(own.OnConnect)
	return own
}

func (s *settings) clusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	own := ownClusterOptions(o)
	if own.ClientName == "" {
		own.OnConnect = s.naming()
	}
	return own
}

func (s *settings) failoverOptions(o *redis.FailoverOptions) *redis.FailoverOptions {
	own := ownFailoverOptions(o)
	if own.ClientName == "" {
		own.OnConnect = s.naming()
	}
	return own
}

// naming returns what names a new connection, nil for nothing. A name must not cost leases, so a refusal is no error, as it
// would be of redis.Options.ClientName.
func (s *settings) naming() func(ctx context.Context, conn *redis.Conn) error {
	if s.name == "" {
		return nil
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		err := conn.ClientSetName(ctx, s.name).Err()
		if refusal := redis.Error(nil); errors.As(err, &refusal) {
			return nil
		}
		return err
	}
}

// admitting returns what lets a node of several refuse a new connection, behind what is done to it already.
func (s *settings) admitting(onConnect func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
	if s.node.Admit == nil {
		return onConnect
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		if onConnect != nil {
			if err := onConnect(ctx, conn); err != nil {
				return err
			}
		}
		if err := s.node.Admit(conn.Info(ctx, "server").Result()); err != nil {
			return fmt.Errorf("%w", err) // go-redis tells what this wraps
		}
		return nil
	}
}

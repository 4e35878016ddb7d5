package redisconn

import (
	"context"
	"time"
)

// MeasureConnection opens a connection to the server of name and closes it. It
// returns how long the dial and the login took, or zeros for a client of an
// unknown type.
func (c *Conns) MeasureConnection(ctx context.Context, name string) (dial, login time.Duration, err error) {
	client, err := c.nodeClient(ctx, name)
	if err != nil || client == nil {
		return 0, 0, err
	}
	o := client.Options()
	start := time.Now()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	dialed := time.Now()
	by := c.loginHook
	if by == nil {
		by = &loginHook{logins: c.logins, login: loginOf(o), dial: dialLimit}
	}
	if err := by.logIn(ctx, conn); err != nil {
		return 0, 0, err
	}
	return dialed.Sub(start).Round(time.Millisecond), time.Since(dialed).Round(time.Millisecond), nil
}

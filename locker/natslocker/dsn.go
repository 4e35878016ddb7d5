package natslocker

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

func init() { locker.RegisterDSN("nats", fromDSN) }

func fromDSN(dsn string) (locker.Locker, error) {
	wrong := func(what string) error {
		return fmt.Errorf("%w: natslocker: %s: want nats://user:password@host:4222,host2/bucket",
			locker.ErrInvalidOption, what)
	}
	_, rest, _ := strings.Cut(dsn, "://")
	hosts, rest, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(hosts, '@') + 1
	var servers []string
	for host := range strings.SplitSeq(hosts[at:], ",") {
		server, err := url.Parse("nats://" + hosts[:at] + host)
		if err != nil || server.Hostname() == "" {
			return nil, wrong("a host, port, user or password cannot be read")
		}
		servers = append(servers, server.String())
	}
	bucket, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if err != nil || bucket == "" {
		return nil, wrong("there is no bucket, or an option cannot be read")
	}
	settings := []nats.Option{
		nats.Name("guard"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),          // a request that cannot be sent is an error
		nats.PingInterval(2 * time.Second), // a connection that the network forgets is closed after three
	}
	for name, values := range options {
		switch {
		case name == "creds" && values[0] != "":
			settings = append(settings, nats.UserCredentials(values[0]))
		case name == "tls" && values[0] == "true":
			settings = append(settings, nats.Secure())
		default:
			return nil, wrong("the options are creds=file and tls=true")
		}
	}
	dial := func() (*nats.Conn, error) { return nats.Connect(strings.Join(servers, ","), settings...) }
	return &Locker{rowlocker.New(&rows{bucket: bucket, dial: dial, ready: make(chan struct{})})}, nil
}

// Command server runs one server of NATS for tests. It prints a line when the
// server takes connections, and ends when its standard input does. So it does
// not outlive the test that started it.
package main

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/go-lockguard/guard/internal/testproc"
)

// config is the first argument, as JSON.
type config struct {
	Name, Dir       string
	Client, Cluster string   // host:port
	Routes          []string // those of all servers; one is no cluster
	Sync            bool     // write to the disk before each answer
}

func main() { testproc.Main(start) }

func start(c config) (stop func(), err error) {
	o := &server.Options{
		ServerName: c.Name, StoreDir: c.Dir, JetStream: true, SyncAlways: c.Sync, MaxPayload: 2 << 20, NoSigs: true,
		NoLog: true,
	}
	var clusterErr error
	o.Host, o.Port, err = split(c.Client)
	if len(c.Routes) > 1 {
		o.Cluster.Name = "test"
		o.Cluster.Host, o.Cluster.Port, clusterErr = split(c.Cluster)
		for _, route := range c.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route})
		}
	}
	if err = errors.Join(err, clusterErr); err != nil {
		return nil, err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return nil, errors.New("the server does not start")
	}
	return s.Shutdown, nil
}

func split(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	return host, port, err
}

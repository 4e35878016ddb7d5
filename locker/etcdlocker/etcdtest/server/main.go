// Command server runs one member of an etcd cluster for tests. It prints a line
// when the member serves, and ends when its standard input does. So it does not
// outlive the test that started it.
package main

import (
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/go-lockguard/guard/internal/testproc"
)

// member is the first argument, as JSON.
type member struct {
	Name, Dir    string
	Client, Peer string // URLs
	Cluster      string // name=peer URL, ...
	Sync         bool   // write to the disk, as a real server does
	Quota        int64  // bytes of the database; 0 is etcd's default
	Cert, Key    string // files for TLS with clients, which need a certificate that Cert has signed; "": no TLS
}

func main() { testproc.Main(start) }

func start(m member) (stop func(), err error) {
	client, err := url.Parse(m.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = m.Name, m.Dir, m.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.UnsafeNoFsync, c.QuotaBackendBytes = !m.Sync, m.Quota
	if m.Cert != "" {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = m.Cert, m.Key
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = m.Cert, true
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e.Close, nil
	case err := <-e.Err():
		return nil, err
	}
}

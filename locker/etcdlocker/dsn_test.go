package etcdlocker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestAnAddressHasAClientForEachHost(t *testing.T) {
	l, err := locker.FromDSN("etcd://app:s%2Fcret@a:2379,b:2379?prefix=app/")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var hosts []string
	for _, c := range l.(*Locker).rows.members {
		hosts = append(hosts, c.Endpoints()...)
		if c.Username != "app" || c.Password != "s/cret" {
			t.Errorf("user %q, password %q", c.Username, c.Password)
		}
	}
	if !slices.Equal(hosts, []string{"http://a:2379", "http://b:2379"}) || l.(*Locker).rows.prefix != "app/" {
		t.Errorf("hosts %q, prefix %q", hosts, l.(*Locker).rows.prefix)
	}
}

func TestAWrongAddressIsRefusedAndNotShown(t *testing.T) {
	for _, dsn := range []string{
		"etcd:", "etcd://", "etcd://secret", "etcd://a:1,secret", "etcd://a:1/secret", "etcd://a:1?secret=1",
		"etcd://a:1#secret", "etcd://u:secret/@a:1", "etcd://secret@a:1", "etcd://a:1?ca=secret",
		"etcds://a:1?ca=secret", "etcds://a:1?cert=secret", "etcd://a:1?prefix=%zzsecret",
	} {
		_, err := locker.FromDSN(dsn)
		if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an ErrInvalidOption without the secret", dsn, err)
		}
	}
	l, err := locker.FromDSN("etcd://a:1?prefix=")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(deaf{}); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("no prefix: %v, want ErrInvalidOption", err)
	}
}

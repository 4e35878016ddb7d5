package ctl

import (
	"strings"
	"testing"
)

func TestAnAddressOfAnotherStoreGoesToItsPackage(t *testing.T) {
	for says, flags := range map[string][]string{
		"locker/etcdlocker": {"--url", "etcd://app:secret@a:2379"}, // the import that is missing here
		"guardctl/all":      {"--url", "etcd://app:secret@a:2379"},
		"--prefix":          {"--url", "etcd://app:secret@a:2379", "--prefix", "p"},
		"--tls-ca":          {"--url", "etcd://app:secret@a:2379", "--tls-ca", "ca.pem"},
		"invalid option":    {"--url", "secret:1"},
	} {
		out, err := runAt(t, append(flags, "ls")...)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, want it to say %q and no secret\n%s", flags, err, says, out)
		}
	}
}

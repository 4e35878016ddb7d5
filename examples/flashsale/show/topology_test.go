package show

import (
	"strings"
	"testing"
)

func TestAnAddressOfSeveralServersIsReadAndShownWithoutPasswords(t *testing.T) {
	for addr, want := range map[string]struct {
		name  string
		check func(e endpoint) bool
	}{
		"redis+sentinel://a:1,b:2,c:3/mymaster": {"mymaster of the Sentinels at a:1, b:2, c:3", func(e endpoint) bool {
			return e.Sentinel.MaxRetries == -1 && e.Sentinel.TLSConfig == nil
		}},
		"rediss+sentinel://u:p%40@a:1,b:2/m?db=3&username=x&password=" + secret: {
			"m of the Sentinels at a:1, b:2",
			func(e endpoint) bool {
				o := e.Sentinel
				return o.DB == 3 && o.SentinelUsername == "u" && o.SentinelPassword == "p@" && o.Username == "x" &&
					o.Password == secret && o.TLSConfig != nil
			},
		},
		"redis+cluster://u:" + secret + "@a:1,[::1]:2?max_retries=2": {
			"Cluster at a:1, [::1]:2",
			func(e endpoint) bool {
				return e.Cluster.Username == "u" && e.Cluster.Password == secret && e.Cluster.MaxRetries == 2
			},
		},
		"rediss+cluster://a:1": {
			"Cluster at a:1",
			func(e endpoint) bool { return e.Cluster.TLSConfig != nil },
		},
		"redis://u:" + secret + "@a:1/2": {
			"a:1",
			func(e endpoint) bool { return e.Single.DB == 2 && e.Single.Password == secret },
		},
		"a:1": {"a:1", func(e endpoint) bool { return e.Single.MaxRetries == -1 }},
	} {
		e, err := parseRedis(addr)
		if err != nil || e.name() != want.name || !want.check(e) {
			t.Errorf("%s: %q, %v, %+v", addr, e.name(), err, e)
		}
	}
	for _, addr := range []string{
		"redis://u:" + secret + "@a:x", "redis+cluster://u:" + secret + "@a:1,b", "redis+sentinel://u:" + secret +
			"@a:1", "redis+cluster://u:" + secret + "%zz@a:1",
		"redis://u:%zz" + secret + "@a:1",
		"redis+sentinel://a:1/m?password=" + secret + "&x=1",
		"u:" + secret + "@a:1", secret + "@a:1", "redis://u:p/" + secret + "@a:1/0", "redis://u:1/" + secret + "@a:1/0",
		"redis://u:1#" + secret + "@a:1",
		"redis+sentinel://" + secret + "/p@a:1/m", "redis+cluster://u:1?" + secret + "@a:1",
		"unix://u:1/" + secret + "@/tmp/s",
	} {
		if _, err := parseRedis(addr); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

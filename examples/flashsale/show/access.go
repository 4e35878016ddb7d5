package show

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// pageHeaders keep the page to itself: nothing from elsewhere, in nobody's
// frame, its URL told to nobody.
var pageHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; " +
		"connect-src 'self'; " +
		"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
}

// access decides who may look and who may touch. Anybody on this machine may
// look; the URL that is printed has a token for those who may touch.
type access struct {
	port  string
	token string
}

// loopbackAddr checks that an address for -web is on this machine only. "" is a
// free port.
func loopbackAddr(addr string) (string, error) {
	if addr == "" {
		return "127.0.0.1:0", nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("-web is %q, want host:port such as 127.0.0.1:8080", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("-web is %q, want an address of this machine only, such as 127.0.0.1:%s: the page can "+
			"stop and kill processes", addr, port)
	}
	return net.JoinHostPort(host, port), nil
}

// protect puts the checks in front of the page.
func (a access) protect(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection() // by Sec-Fetch-Site, or Origin against Host
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range pageHeaders {
			w.Header().Set(name, value)
		}
		switch {
		case !a.hostIsOurs(r.Host):
			// A name that somebody else points here must not make us theirs
			// (DNS rebinding).
			refuse(w, http.StatusMisdirectedRequest, "this page is at 127.0.0.1:"+a.port+" only")
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.URL.Path != "/": // a link to the page is fine
			refuse(w, http.StatusForbidden, "requests of other sites are refused")
		case foreign.Check(r) != nil:
			refuse(w, http.StatusForbidden, "requests of other sites are refused")
		case changes(r) && !a.hasToken(r):
			refuse(w, http.StatusForbidden, "the token is missing: open the URL that the program has printed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

func (a access) hasToken(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(a.token)) == 1
}

func (a access) hostIsOurs(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
	}
	ip := net.ParseIP(name)
	return port == a.port && (name == "localhost" || (ip != nil && ip.IsLoopback()))
}

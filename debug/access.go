package debug

import (
	"net"
	"net/http"
	"strings"
)

// foreign returns the status and the reason of a request that another site may
// have made. The reason is "" if r is none.
func foreign(r *http.Request) (status int, reason string) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		if !link || r.URL.RawQuery != "" {
			return http.StatusForbidden, "requests of other sites are refused, except links to the page without a query"
		}
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.IP.IsLoopback() &&
		!onLoopback(r.Host) {
		// A name that somebody else points here must not make the page theirs
		// (DNS rebinding).
		return http.StatusMisdirectedRequest,
			"on a loopback address the host must be localhost or a loopback address, also behind a proxy"
	}
	return 0, ""
}

// onLoopback reports whether a Host header names this machine to itself.
func onLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

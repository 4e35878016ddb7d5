package rpcguard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-lockguard/guard"
)

// Method is a method that a server has.
type Method struct {
	Name    string
	Streams bool
}

// Verify returns the problems of an adapter's rules, joined, as the error of its
// Verify. inner returns a rule's own, and problem what is wrong with it or "".
func Verify[R any](rules []R, inner func(R) *Rule, problem func(R) string) error {
	var errs []error
	for _, rule := range rules {
		text, method := problem(rule), ""
		if r := inner(rule); r != nil {
			method = r.Method
		}
		if text != "" {
			errs = append(errs, fmt.Errorf("%w: lockmw: rule for %q: %s", guard.ErrInvalidOption, method, text))
		}
	}
	return errors.Join(errs...)
}

// Problem returns the reason why r never locks a call of the services, or "" if
// it does. A nil r was not made by New. split means that streams have an
// interceptor of their own.
func (r *Rule) Problem(services map[string][]Method, split bool) string {
	if r == nil {
		return "it was not made by Key, KeyFunc or KeysFunc"
	}
	m, problem := find(r.Method, services)
	unary, stream := r.Unary.Load(), r.Stream.Load()
	switch {
	case problem != "":
		return problem
	case !unary && !stream:
		return "no interceptor that is in use has it"
	case m.Streams && r.Serve != nil:
		return "the method streams, and a rule of Idempotent is for unary methods"
	case split && m.Streams && !stream:
		return "the method streams, so the rule belongs to Stream, not to Unary"
	case split && !m.Streams && !unary:
		return "the method does not stream, so the rule belongs to Unary, not to Stream"
	}
	return ""
}

// find returns the method with a full name, or the reason why there is none.
func find(method string, services map[string][]Method) (m Method, problem string) {
	service, name, _ := split(method)
	methods, known := services[service]
	if !known {
		return m, fmt.Sprintf("there is no such service, only %q", slices.Sorted(maps.Keys(services)))
	}
	i := slices.IndexFunc(methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		return m, fmt.Sprintf("the service has no such method, only %q", names(methods))
	}
	return methods[i], ""
}

func names(methods []Method) []string {
	all := make([]string, len(methods))
	for i, m := range methods {
		all[i] = m.Name
	}
	slices.Sort(all)
	return all
}

// split splits a full method name like "/shop.Stock/Buy" into its parts.
func split(method string) (service, name string, ok bool) {
	rest, slash := strings.CutPrefix(method, "/")
	service, name, found := strings.Cut(rest, "/")
	return service, name, slash && found && service != "" && name != "" && !strings.Contains(name, "/")
}

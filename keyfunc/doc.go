// Package keyfunc makes keys from requests, for any router.
//
// A [Func] takes one value from a request; [Join] makes a key of several, with the encoding of guard.Key, and [Parse]
// does so from a template:
//
//	keyfunc.MustParse("stock:{sku}")                                   // path parameter
//	keyfunc.MustParse("stock:{header.X-Tenant}:{query.sku}")           // header, query
//	keyfunc.Join(keyfunc.Static("stock"), keyfunc.Path("sku"))         // the same as the first
//
// "stock:{sku}" gives guard.Key("stock", sku), so a route and a service that
// lock the same thing meet on the same key. A single value is not a key yet: write Join(Path("sku")), or "{sku}", for
// guard.Key(sku).
//
// A value must be there exactly once. An absent or empty one is [ErrMissing] and never a key, because a key without its
// value is one lock for everybody; a repeated one is [ErrAmbiguous], because the handler may read the other. Lock on the
// value that the handler uses: "7" and "007" are two keys, even if a handler takes both for the same row.
//
// Everything here is safe for concurrent use and does no I/O.
package keyfunc

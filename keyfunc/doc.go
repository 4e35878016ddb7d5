// Package keyfunc makes keys from requests, for any router.
//
// A [Func] takes one value from a request; [Join] makes a key of several, with
// the encoding of guard.Key, and [Parse] does so from a template:
//
//	keyfunc.MustParse("stock:{sku}")                                   // path parameter
//	keyfunc.MustParse("order:{id|int}:{header.X-Tenant|lower}")        // one spelling of each
//	keyfunc.Join(keyfunc.Static("stock"), keyfunc.Path("sku"))         // the same as the first
//	keyfunc.Join(keyfunc.FromContext(auth.User), keyfunc.JSON("cart")) // what templates cannot say
//
// "stock:{sku}" gives guard.Key("stock", sku), so a route and a service that
// lock the same thing meet on the same key. A single value is not a key yet:
// write Join(Path("sku")), or "{sku}", for guard.Key(sku).
//
// # Exactly one value
//
// A value must be there exactly once. An absent or empty one is [ErrMissing]
// and never a key, because a key without its value is one lock for everybody; a
// repeated one is [ErrAmbiguous], because the handler may read the other.
//
// # The value that the handler uses
//
// Two spellings of one thing are two keys, and so no lock at all: "7" and "007"
// if the handler calls strconv.Atoi. Name the spelling with [Func.Int],
// [Func.UUID], [Func.Lower] and [Func.Trim], or in a template as in {id|int}.
// An id that was never set is often "0", a value like any other: refuse it with
// [Func.NonZero], or {id|nonzero}. Where the handler's reading is harder to
// match than that, let it bind first and call guard.Do.
//
// Path parameters are decoded by most routers: /stock/%61b is "ab". Three cases
// are the router's decision: for a value with %2F ServeMux has "a/b", gin
// answers 404 unless engine.UseRawPath is set, and chi gives any value whose
// spelling is unusual as it was sent, "a%2Fb" or "%61b".
//
// # Whom to believe
//
// A client can send any header, cookie or body. Whoever may choose the key may
// keep others waiting for it: put the authenticated user or tenant, see
// [FromContext], into the key of what belongs to them.
//
// # Other routers
//
// gin, echo, ServeMux and chi hand their path parameters on by themselves. For
// a router that does not, as gorilla/mux, call [SetPath] for each parameter in
// a middleware outside the lock, or use a [Template].
//
// Everything here is safe for concurrent use. Only [Form], [JSON] and [Body]
// read the body: at most 64 KiB, or what lockmw's WithBodyLimit says, which are
// there to be read again.
package keyfunc

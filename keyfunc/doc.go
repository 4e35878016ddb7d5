// Package keyfunc makes keys from requests, for any router.
//
// A [Func] takes one value from a request. [Join] makes a key of several values
// with the encoding of guard.Key. [Parse] makes it from a template:
//
//	keyfunc.MustParse("stock:{sku}")                                   // path parameter
//	keyfunc.MustParse("order:{id|int}:{header.X-Tenant|lower}")        // one spelling of each
//	keyfunc.Join(keyfunc.Static("stock"), keyfunc.Path("sku"))         // the same as the first
//	keyfunc.Join(keyfunc.FromContext(auth.User), keyfunc.JSON("cart")) // what templates cannot say
//
// "stock:{sku}" gives guard.Key("stock", sku). So a route and a service that
// lock the same thing use the same key. A single value is not a key yet. Write
// Join(Path("sku")) or "{sku}" for guard.Key(sku).
//
// # Exactly one value
//
// A value must be there exactly once. An absent or empty value is [ErrMissing]
// and never a key, because a key without its value is one lock for everybody. A
// repeated value is [ErrAmbiguous], because the handler may read the other one.
//
// # The value that the handler uses
//
// Two spellings of one thing are two keys, and then nothing is locked. For
// example, "7" and "007" mean the same to a handler that calls strconv.Atoi.
// Name the spelling with [Func.Int], [Func.UUID], [Func.Lower] and [Func.Trim].
// In a template write {id|int}.
//
// An id that was never set is often "0", which looks like any other value.
// Refuse it with [Func.NonZero] or {id|nonzero}. If the handler's reading is
// harder to match, let the handler bind first and call guard.Do.
//
// Most routers decode path parameters, so /stock/%61b gives "ab". They differ
// in these cases:
//
//   - ServeMux decodes a%2Fb to "a/b".
//   - gin answers 404 to %2F unless engine.UseRawPath is set.
//   - chi returns any value with an unusual spelling as it was sent, such as
//     "a%2Fb" or "%61b".
//
// # Whom to believe
//
// A client can send any header, cookie or body. A client that may choose the
// key can keep others waiting for it. So put the authenticated user or tenant
// into the key of everything that belongs to them. See [FromContext].
//
// # Other routers
//
// gin, echo, ServeMux and chi pass on their path parameters by themselves.
// Other routers, such as gorilla/mux, do not. For these call [SetPath] for each
// parameter, in a middleware outside the lock, or use a [Template].
//
// Everything here is safe for concurrent use. Only [Form], [JSON] and [Body]
// read the body, and they leave it to be read again. They read at most 64 KiB
// unless httpopt.WithBodyLimit sets another limit.
package keyfunc

package keyfunc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-lockguard/guard/keyfunc"
)

func ExampleParse() {
	key, err := keyfunc.Parse("order:{json.id|int}:{header.X-Tenant|trim|lower}")
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"id": "007", "note": "a:b"}`))
	r.Header.Set("X-Tenant", "ACME")
	fmt.Println(key(r))

	r = httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"id": 7, "ID": 8}`))
	fmt.Println(key(r))

	_, err = keyfunc.Parse("order:{id|hex}")
	fmt.Println(err)
	// Output:
	// order:7:acme <nil>
	//  keyfunc: given more than once: json "id"
	// keyfunc: template "order:{id|hex}", column 11: unknown normalizer "hex", want int, uuid, nonzero, lower, trim, maxlen=n or oneof=a,b
}

// Package guardtest is for tests of code that uses a guard. It gives a real
// [guard.Guard] without a server, on leases in memory. It also stages events
// that are hard to stage otherwise.
//
//	func TestReserveAnswersConflictWhileHeld(t *testing.T) {
//		g := guardtest.New(t, guard.WithMaxWait(0))
//		g.Hold(guard.Key("stock", "4711")) // by somebody else, until the test ends
//		w := httptest.NewRecorder()
//		routes(g.Guard).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/4711", nil))
//		if w.Code != http.StatusConflict {
//			t.Errorf("answered %d", w.Code)
//		}
//	}
//
// Have such a test for each route. It also proves that the lock is in front of
// the handler. A middleware that is listed after the handler does nothing, and
// neither does an r.Use after the route. The answer is then 200.
//
// Three lines stage what [guard.Once] may meet:
//
//	g.Keep("pay:7", receipt) // another call has kept this result
//	g.LoseResult("pay:7")    // and it was lost, or forgotten
//	g.Crash("pay:7")         // another process died inside its function, under guard.WithAtMostOnce
//
// A test also fails if calls take keys inside each other in orders that make a
// circle, in whichever tests they do so: see [LockOrder].
//
// Package explore stages what none of these do: the process of the code under
// test dies, at each of its steps in turn. See docs/testing-crashes.md.
//
// The guard has the defaults of production. A call waits 3 s for a key that is
// held. A lost lease is noticed at its next renewal, after a third of the TTL
// of 10 s. Set shorter times, or run the test in a testing/synctest bubble.
// There times are exact and take no real time:
//
//	func TestWorkStopsWhenTheLeaseIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			g := guardtest.New(t)
//			err := g.Do(t.Context(), "report", func(ctx context.Context) error {
//				g.Lose("report")
//				return work(ctx) // its context ends after about 3.3 s of virtual time
//			})
//			if !errors.Is(err, guard.ErrLeaseLost) {
//				t.Errorf("got %v", err)
//			}
//		})
//	}
package guardtest

package httpguard

// Answers defines how an adapter answers errors. A field that is not set is
// taken from the middleware outside. H is the type of the adapter's error
// handlers.
type Answers[H any] struct {
	OnError *H  // nil means the answers of package outcome
	Held    int // status of a held key; 0 means the status of package outcome
}

// Any reports whether anything is set.
func (a Answers[H]) Any() bool { return a.OnError != nil || a.Held != 0 }

// Over returns a with its unset fields taken from outer.
func (a Answers[H]) Over(outer Answers[H]) Answers[H] {
	if a.OnError == nil {
		a.OnError = outer.OnError
	}
	if a.Held == 0 {
		a.Held = outer.Held
	}
	return a
}

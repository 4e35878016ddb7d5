package httpguard

// Answers is how an adapter answers errors. What is not set is as outside. H is
// the type of the adapter's error handlers.
type Answers[H any] struct {
	OnError *H  // nil: the answers of package outcome
	Held    int // status of a held key; 0: that of package outcome
}

// Any reports whether anything is set.
func (a Answers[H]) Any() bool { return a.OnError != nil || a.Held != 0 }

// Over returns a with what it has not set from outer.
func (a Answers[H]) Over(outer Answers[H]) Answers[H] {
	if a.OnError == nil {
		a.OnError = outer.OnError
	}
	if a.Held == 0 {
		a.Held = outer.Held
	}
	return a
}

package redislocker

// WithClientName sets what the locker's own connections are called in CLIENT
// LIST: printable ASCII without blanks, or "" for no name. Default "guard". A
// user without the right to name its connections does without. A ClientName
// that the caller's client has is taken over instead, and a client of
// WithClient keeps its own.
func WithClientName(name string) Option {
	return optionFunc(func(s *settings) { s.name = name })
}

package redislocker

// WithClientName sets the name of the locker's own connections in CLIENT LIST.
// It is printable ASCII without blanks, or "" for no name. Default "guard". If
// the user may not name its connections, they have no name. If the caller's
// client has a ClientName, that is used instead. A client of WithClient keeps
// its own name.
func WithClientName(name string) Option {
	return optionFunc(func(s *settings) { s.name = name })
}

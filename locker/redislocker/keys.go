package redislocker

// keys are the names in Redis of what belongs to one key. They share a hash tag, so they live on one node.
type keys struct{ lock string }

func (k keys) wait() string  { return k.lock + ":wait" }
func (k keys) fence() string { return k.lock + ":fence" }

// keys returns the names of what belongs to a key, which the guard has made fit for a hash tag.
func (l *Locker) keys(key string) keys { return keys{lock: l.settings.prefix + ":{" + key + "}"} }

// probeKey returns a key that no guard ever uses.
func probeKey() string { return "%probe:" + newID() }

package redislocker

// keys are the names in Redis of what belongs to one key, as arguments of commands. They share a hash tag, so they live on
// one node.
type keys struct{ lock, wait, fence any }

// keys returns the names of what belongs to a key, which the guard has made fit for a hash tag.
func (l *Locker) keys(key string) keys {
	lock := l.lockName(key)
	return keys{lock: lock, wait: lock + ":wait", fence: lock + ":fence"}
}

func (l *Locker) lockName(key string) string { return l.settings.prefix + ":{" + key + "}" }

// probeKey returns a key that no guard ever uses.
func probeKey() string { return "%probe:" + newID() }

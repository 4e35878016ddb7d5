package faults

// rows are the faults of the matrix in order. Each has the event, and the
// conditions that must hold then.
var rows = []struct{ fault, wanted string }{
	1: {"The reply to an acquire is lost", "A second try with the same owner id succeeds."},
	2: {
		"The reply to an acquire comes after the lease has ended",
		"Nothing is granted; what is left of the key is given up by owner id.",
	},
	3: {
		"An acquire is abandoned without an answer",
		"Its key is released, even if the request arrives after the release.",
	},
	4: {"The server forgets its scripts", "Nobody notices."},
	5: {"A slot of a cluster moves", "No call fails: all keys of a lock share a slot."},
	6: {
		"The server is out of memory, without replicas, read-only, without its primary, unable to save, busy or " +
			"loading",
		"An error of its own kind, or the key when that is over. A holder keeps its lease, to its deadline at most.",
	},
	7: {
		"The server refuses for good: rights, password, a key of another type",
		"An error at once.",
	},
	8:  {"A failover loses the lock", "The first holder is told, and a second grant has a higher token."},
	9:  {"The primary dies under Sentinel", "Keys are granted soon after the sentinels have agreed."},
	10: {"A primary of a cluster dies", "Keys are granted soon after the cluster has agreed."},
	11: {
		"A process is stopped for longer than its TTL",
		"It is told before it works on; the resource refuses its late write by token.",
	},
	12: {"The machine sleeps", "The lease is lost by whichever clock passes the deadline first."},
	13: {
		"Clocks differ, or a client's clock is set",
		"No client's time is sent or compared. A clock set forward may end a lease early, never late.",
	},
	14: {
		"The server's clock is set forward",
		"The key ends early. Its holder is told at the next renewal, and the next token is higher.",
	},
	15: {"The server's clock is set back", "The key lasts longer. Waiters do not sleep through that, and tokens rise."},
	16: {
		"Requests arrive, replies do not",
		"The holder is told before its key can end; the key is released once the network is back.",
	},
	17: {"The holder alone is cut off", "It is told before its key can end."},
	18: {
		"The server is slow",
		"No lease is lost while a slow round trip takes less than TTL/3; `Check` warns of more " +
			"([limitation](#known-limitation)).",
	},
	19: {"The server pauses its clients", "A wait ends in time, and a holder is told before its key can end."},
	20: {"A holder releases after its lease has ended", "It is told so; the next holder's key is left alone."},
	21: {"A renewal is under way at the release", "The key does not come back."},
	22: {"The reply to a release is lost", "That is no error of the work."},
	23: {
		"A message is lost, or the subscription is dropped or dies",
		"A waiter looks by itself, and has the key some hundred ms later ([many keys](#many-keys): later).",
	},
	24: {"The key is released between a waiter's look and its sleep", "The waiter is woken."},
	25: {"A waiter leaves as its turn comes", "The turn goes to the next, or the key is free."},
	26: {"A thousand waiters at one key", "Requests grow with grants, not with waiters."},
	27: {"The server evicts the key", "Warned at the start; the holder is told at its next renewal."},
	28: {"The server is out of memory", "Acquiring fails; renewing and releasing work."},
	29: {
		"Somebody deletes the key, or all of them",
		"The holder is told at its next renewal, and the key is not made again.",
	},
	30: {
		"The server restarts, with its data or without",
		"With its data no lease is lost. Without, holders are told, and the next token is higher.",
	},
	31: {"The caller's connections are all busy", "Leases are renewed and released."},
	32: {
		"Very many keys",
		"The process keeps nothing for a key that is not held, no goroutine for one that is; the server no key " +
			"without a TTL.",
	},
	33: {"The caller leaves between the grant and its work", "The work does not start, the key is released."},
	34: {"The handler panics, aborts or ends its goroutine", "The key is released; the panic passes on unchanged."},
	35: {
		"`http.TimeoutHandler` answers while the handler runs",
		"With the lock inside, the key is held until the handler ends.",
	},
	36: {
		"The process is killed, or told to end",
		"Killed: the key is free within the TTL. Told: `Close` waits, and releases all.",
	},
	37: {"A lease is released twice, or used after that", "The first release counts; the rest costs no request."},
	38: {"A TTL that Redis cannot keep", "Refused at the start."},
	39: {"Another server, another Lua", "The same on every server that is promised."},
	40: {"Close", "No goroutine, no connection, no key without a TTL is left."},
	41: {
		"The server is far away",
		"A new process has its first turn on one server within 3 s, up to a round trip of 400 ms and TLS.",
	},
	42: {
		"The server or a process stops right after a key was handed over",
		"A pause of a second or two, in a cluster of less than one, costs no lease and lets nobody else in.",
	},
	43: {
		"Processes are killed while they wait for the first time",
		"All together they cost those behind them a second.",
	},
	44: {
		"More leases than can be renewed in time",
		"Only the surplus is lost: the most urgent are renewed first.",
	},
	45: {
		"A process dies with a shared lease or a permit",
		"The others are in within its TTL, whatever they renew.",
	},
	46: {
		"A writer dies in front of readers that run",
		"New readers stay out for 1.25 s at most.",
	},
	47: {
		"The primary dies while several have a key",
		"Leases that the replica had are kept.",
	},
	48: {
		"A proxy sends subscriptions to a replica",
		"It costs waiters time, never a second holder. `Check` names it.",
	},
	49: {
		"A primary hands over to its replica, and connections to it stay",
		"No write is lost, so nobody else comes in.",
	},
	50: {
		"Sentinels replace a primary that goes on taking writes",
		"Nobody uses the new primary before all have left the old one.",
	},
	51: {
		"A primary of a cluster hands over to its replica",
		"No write is lost, so nobody else comes in.",
	},
	52: {
		"A failover loses the first renewal of a key that was handed over",
		"Its holder relies on it for as long as the replica has it, so nobody else comes in.",
	},
}

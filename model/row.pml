/* Stores on rows (package rowlocker): one row, which is read, changed, and swapped if nobody has written it meanwhile. Claims
   that come later stand beside it. N processes, one key, owner ids that are used once.

   handover.pml has what the steps mean, and says how to read this. Here a step is what it is on such a store: a swap of what
   was known, which may be old, and which may arrive after its caller has given up. Left out are messages that are lost, offers
   that are trusted without a swap, records, shares and crashes.

   What holds, with the laws of package rowlocker:
   - A swap compares the version. Each write has a higher one than all before, even if the row was deleted in between (law 2).
   - A join is refused unless somebody owns the key, so that somebody will see the ticket.
   - Who frees the key, or gives it to another, is refused if there is a ticket that it does not know of (Row.Alone).
   - After a request without an answer the owner id is released, also after the request has arrived. */

#ifndef N
#define N 2            /* processes: 2 or 3 */
#endif
#ifndef TURNS
#define TURNS 2        /* calls of each process, one after the other */
#endif
#ifndef TTL
#define TTL 2          /* ticks that a lease lasts */
#endif

/* --- what may go wrong: how often, at any moment --- */
#ifndef TICKS
#define TICKS 3        /* ticks in all */
#endif
#ifndef LEAVES
#define LEAVES 1       /* waiters that give up */
#endif
#ifndef UNCLEAR
#define UNCLEAR 1      /* requests without an answer: executed at any later moment */
#endif

/* --- planted faults: each must be caught --- */
#ifndef FALLS
#define FALLS 0        /* law 2: the versions of a key begin anew when its row was deleted */
#endif
#ifndef BLIND
#define BLIND 0        /* a release deletes the row whatever its version is */
#endif
#ifndef FORGETFUL
#define FORGETFUL 0    /* a release does not look for tickets that it does not know of */
#endif
#ifndef JOINS_FREE
#define JOINS_FREE 0   /* a ticket may come to a key that nobody owns */
#endif
#ifndef UNRELEASED
#define UNRELEASED 0   /* a request without an answer is forgotten */
#endif

#define LAST (N * TURNS)
#define instance(id) (((id) - 1) / TURNS)

/* --- the store --- */
byte counter;              /* of versions */
byte version;              /* of the row; 0: there is none */
byte owner;                /* owner id; 0: nobody */
byte ttl;                  /* ticks until the lease ends, which changes no version */
bool inRow[LAST+1];        /* claims that wait, in the row */
byte ticket[LAST+1];       /* versions of the tickets beside it; 0: none */

/* --- on its way --- */
#define TAKE 1
#define JOIN 2
#define FREE 3
bool told[LAST+1];         /* the message that the key is the claim's */
bool chore[LAST+1];        /* a release in the background */
byte late[LAST+1];         /* a request without an answer: its kind; 0: none */
byte lateVersion[LAST+1], lateTicket[LAST+1];

/* --- the processes --- */
byte id[N];                /* of the claim */
byte known[N];             /* the version of the row that the process knows */
byte seen[N];              /* the version of the latest ticket that it knows */
byte sent[N];              /* what the request on its way may give, counted from when it was sent */
byte trust[N];             /* rest of the lease */
bool inTurn[N];

byte ticks = TICKS, leaves = LEAVES, unclear = UNCLEAR;
hidden byte j, heir, newest, carried;

/* --- requests: each is one step of the store --- */

inline latest() { newest = 0; for (j : 1 .. LAST) { if :: ticket[j] > newest -> newest = ticket[j] :: else fi } }

inline load(i) { latest(); known[i] = version; seen[i] = newest }

inline write() { counter++; version = (FALLS -> version + 1 : counter) }

/* The tickets up to t come into the row, all but x, which is out. heir is the first of all who wait. */
inline gather(x, t) {
  heir = 0; inRow[x] = false;
  if :: ticket[x] <= t -> ticket[x] = 0 :: else fi;
  for (j : 1 .. LAST) {
    if :: ticket[j] > 0 && ticket[j] <= t -> ticket[j] = 0; inRow[j] = true :: else fi;
    if :: inRow[j] && heir == 0 -> heir = j :: else fi
  }
}

inline give() { owner = heir; ttl = TTL; inRow[heir] = false; told[heir] = true; write() }

/* Makes x the owner of a key that is free, or puts it behind those who wait. */
inline take(x, v, t) {
  latest();
  carried = (version == v && newest <= t && (owner == 0 || ttl == 0));
  if
  :: carried ->
     gather(x, t);
     if
     :: heir == 0 -> owner = x; ttl = TTL; write()
     :: else -> give(); inRow[x] = true
     fi
  :: else
  fi
}

inline join(x) {
  carried = (version != 0 || JOINS_FREE);
  if :: carried && !inRow[x] && ticket[x] == 0 -> counter++; ticket[x] = counter :: else fi
}

/* Frees the key of x, or gives it to the first who waits. */
inline free(x, v, t) {
  latest();
  carried = ((version == v || BLIND) && (newest <= t || FORGETFUL));
  if
  :: carried ->
     gather(x, t);
     if :: heir == 0 -> owner = 0; ttl = 0; version = 0 :: else -> give() fi
  :: else
  fi
}

#define EXCLUSION (!(inTurn[0] && trust[0] > 0 && inTurn[1] && trust[1] > 0) && \
  !(inTurn[0] && trust[0] > 0 && inTurn[N-1] && trust[N-1] > 0 && N > 2) && \
  !(inTurn[1] && trust[1] > 0 && inTurn[N-1] && trust[N-1] > 0 && N > 2))

inline unanswered(i, kind) {
  unclear--; sent[i] = 0;
  late[id[i]] = kind; lateVersion[id[i]] = known[i]; lateTicket[id[i]] = seen[i];
  if :: UNRELEASED -> skip :: else -> chore[id[i]] = true fi
}

proctype process(byte i) {
  byte n = 0;
next:
  atomic {
    if :: n == TURNS -> id[i] = 0; goto end :: else fi;
    n++; id[i] = i * TURNS + n
  }
try: /* by what is known, or by a read */
  if :: atomic { load(i); sent[i] = TTL } :: sent[i] = TTL fi;
  if
  :: atomic { version != known[i] || owner == 0 || ttl == 0 ->
       take(id[i], known[i], seen[i]);
       if
       :: carried && owner == id[i] -> trust[i] = sent[i]; sent[i] = 0; load(i); goto mine
       :: carried && owner != id[i] -> sent[i] = 0; load(i); goto sleep
       :: else -> load(i); goto try
       fi }
  :: atomic { known[i] != 0 && !(version == known[i] && ttl == 0) -> /* it knows an owner */
       join(id[i]); sent[i] = 0;
       if :: carried -> goto sleep :: else -> load(i); goto try fi }
  :: atomic { unclear > 0 -> unanswered(i, TAKE); goto next }
  :: atomic { unclear > 0 -> unanswered(i, JOIN); goto next }
  fi;
sleep:
  if
  :: atomic { told[id[i]] -> told[id[i]] = false; sent[i] = TTL }
  :: atomic { owner != 0 && ttl == 0 -> load(i); goto try } /* the lease that it waits for has ended */
  :: atomic { leaves > 0 -> leaves--; chore[id[i]] = true; goto next }
  fi;
  atomic { /* a swap makes sure of what was told */
    if
    :: owner == id[i] -> ttl = TTL; trust[i] = sent[i]; write(); load(i)
    :: else -> sent[i] = 0; chore[id[i]] = true; goto next
    fi;
    sent[i] = 0
  }
mine:
  atomic {
    if :: trust[i] == 0 -> chore[id[i]] = true; goto next :: else fi;
    inTurn[i] = true;
    assert(EXCLUSION)
  }
turn:
  if
  :: atomic { owner == id[i] && trust[i] > 0 && trust[i] < TTL && ticks > 0 -> ttl = TTL; trust[i] = TTL; write() }; goto turn
  :: atomic { trust[i] == 0 -> inTurn[i] = false; chore[id[i]] = true; goto next }
  :: atomic { inTurn[i] = false; trust[i] = 0 }
  fi;
release: /* by what it knows, perhaps from before others came */
  if
  :: atomic { free(id[i], known[i], seen[i]);
       if
       :: carried -> goto next
       :: !carried && owner == id[i] -> load(i); goto release
       :: else -> chore[id[i]] = true; goto next
       fi }
  :: atomic { unclear > 0 -> unanswered(i, FREE); goto next }
  fi;
end:
  skip
}

/* What is on its way under one owner id arrives when it likes. */
proctype traffic(byte x) {
end:
  do
  :: atomic { told[x] && id[instance(x)] != x -> told[x] = false; chore[x] = true } /* nobody here wants it */
  :: atomic { chore[x] ->
       chore[x] = false; latest();
       if
       :: owner == x -> free(x, version, newest)
       :: owner != x && inRow[x] -> inRow[x] = false; write()
       :: else -> ticket[x] = 0
       fi }
  :: atomic { late[x] != 0 ->
       if
       :: late[x] == TAKE -> take(x, lateVersion[x], lateTicket[x])
       :: late[x] == JOIN && lateVersion[x] != 0 -> join(x)
       :: late[x] == FREE -> free(x, lateVersion[x], lateTicket[x])
       :: else
       fi;
       late[x] = 0;
       if :: UNRELEASED -> skip :: else -> chore[x] = true fi }
  od
}

active proctype world() {
end:
  do
  :: atomic { ticks > 0 ->
       ticks--;
       if :: ttl > 0 -> ttl-- :: else fi;
       for (j : 0 .. N-1) {
         if :: sent[j] > 0 -> sent[j]-- :: else fi;
         if :: trust[j] > 0 -> trust[j]-- :: else fi
       } }
  :: atomic { ticks > 0 -> ticks = 0 }
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. N-1) { run process(i) }
    for (i : 1 .. LAST) { run traffic(i) }
    i = 0
  }
}

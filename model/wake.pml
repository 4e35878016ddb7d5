/* How processes wait for each other: one key, N instances, each with a gate, a contender, an inbox, and commands on their
   way to the store. README.md says what is modelled and what is not. Set any switch with spin -D. */

/* --- size --- */
#ifndef N
#define N 2            /* instances: 2 or 3 */
#endif
#ifndef CALLS
#define CALLS 2        /* callers that arrive at each instance */
#endif
#ifndef ROOM
#define ROOM 2         /* callers that wait at one gate at a time */
#endif
#ifndef ENDLESS
#define ENDLESS 0      /* 1: callers never stop arriving */
#endif
#ifndef SLICE
#define SLICE 0        /* law 7: most turns of a tenure; 0: any number, and a release may come at any time */
#endif

/* --- what may go wrong: how often, at any moment --- */
#ifndef LEAVES
#define LEAVES 1       /* waiters that give up */
#endif
#ifndef LATE
#define LATE 0         /* releases that reach the store only after the floor has passed on */
#endif
#ifndef UNSENT
#define UNSENT 0       /* leave commands that never reach the store */
#endif
#ifndef DROPS
#define DROPS 0        /* subscriptions that break, with all that is in transit */
#endif
#ifndef EXPIRIES
#define EXPIRIES 0     /* leases that end under a live holder */
#endif
#ifndef CRASHES
#define CRASHES 0      /* processes that die */
#endif
#ifndef LOSSY
#define LOSSY 0        /* 1: any message may be lost, or all */
#endif

/* --- the protocol --- */
#ifndef POLL
#define POLL 0         /* law 5: a sleeper wakes by itself */
#endif
#ifndef CLUSTER
#define CLUSTER 0      /* 1: the wake script cannot tell whether a message reached anybody */
#endif
#ifndef COURTESY
#define COURTESY 1     /* law 8 */
#endif

#ifndef QUIET
#define QUIET 0        /* 1: leaving sends nothing and late releases remove nothing: such entries are left to law 2 */
#endif
#ifndef COUNT
#define COUNT 0        /* 1: a release counts the queue first, and runs the wake script only if it is not empty */
#endif
#ifndef YIELD
#define YIELD 0        /* 1: after a release that woke another instance, a caller that comes in the next moments queues
                          even though the key is free, and looks again when the courtesy is over */
#endif
#ifndef MARK
#define MARK 0         /* 1: whatever comes for the gate while nobody waits there makes the next caller look first */
#endif

/* --- planted faults: each must be caught --- */
#ifndef NO_LAW2
#define NO_LAW2 0      /* a wake-up that nobody here wants is dropped */
#endif
#ifndef NO_LAW4
#define NO_LAW4 0      /* a confirmed subscription wakes nobody: subscribed after the look */
#endif
#ifndef ASK
#define ASK 0          /* a release wakes only if a message told of a waiter, and that message may be lost */
#endif
#ifndef NO_LATE_WAKE
#define NO_LATE_WAKE 0 /* a late release runs no wake script */
#endif
#ifndef FORGETFUL
#define FORGETFUL 0    /* a wake-up that finds the contender between its look and its sleep is dropped */
#endif
#ifndef SWALLOW
#define SWALLOW 0      /* a waiter that leaves after its wake-up came, and before it looked, keeps it */
#endif
#ifndef INHERIT
#define INHERIT 0      /* a caller that comes when the last one has just left sleeps on after that one's look */
#endif
#ifndef MUTE_LEAVE
#define MUTE_LEAVE 0   /* leaving takes the entry out of the queue and wakes nobody */
#endif
#ifndef REMOVE_PASS
#define REMOVE_PASS 0  /* law 2's wake script removes its instance's entry, whichever it is */
#endif
#ifndef REMOVE_LATE
#define REMOVE_LATE 0  /* so does a late release's wake script */
#endif
#ifndef REMOVE_LEAVE
#define REMOVE_LEAVE 0 /* so does leaving */
#endif
#ifndef UNQUEUED
#define UNQUEUED 0     /* courtesy without an entry in the queue */
#endif
#ifndef YIELD_LONG
#define YIELD_LONG 0   /* who queued for courtesy while the key was free sleeps on after the courtesy */
#endif
#ifndef TRUST
#define TRUST 0        /* a wake-up is taken for a grant */
#endif

/* --- the store --- */
byte owner = 0;        /* owner id in the key; 0: free */
bool queued[N];        /* the instance has an entry in the wait queue */
byte rank[N];          /* the place of its score among the scores in use; 0: it has none */
bool reachable[N];     /* the store has its subscription */
byte inbox[N];         /* wake-ups on their way to it: they arrive in any order, at any time */

/* --- the instances --- */
byte calls[N] = CALLS; /* callers yet to come */
byte waiting[N];       /* callers at the gate without a turn; the contender acts for the first of them */
bool scored[N];        /* the contender has a score in the queue: the note "I am queued" */
bool working[N];       /* the contender is neither idle nor asleep */
bool gone[N];          /* the last waiter has left, and the contender's loop has yet to notice */
bool asleep[N];
bool heedful[N];       /* only with MARK: something came since the last waiter left */
bool polite[N];        /* only with YIELD: the next look leaves a free key to others */
bool brief[N];         /* only with YIELD: the sleep ends with the courtesy */
bool busy[N];          /* from the obtain that succeeded until the release is answered */
bool woken[N];         /* a wake-up came, and nobody has looked since */
bool confirmed[N];     /* the answer to SUBSCRIBE is on its way */
bool told[N];          /* only with ASK: "someone waits" has come */
bool dead[N];

/* --- commands on their way that nobody waits for --- */
byte passing[N];       /* law 2's wake scripts */
byte leaving[N];       /* 1: removes the present entry; 2: the entry it was meant for has been replaced */
byte lateId[N];        /* owner id of a late release */
bool lateScore[N];     /* it removes the present entry */
bool lateDone[N];      /* its first half has run, its wake script has not */

/* --- budgets and ghosts --- */
byte leaves = LEAVES, late = LATE, unsent = UNSENT, drops = DROPS, expiries = EXPIRIES, crashes = CRASHES;
byte grants = 0;       /* grants alive, as the processes see it; counted while no lease can expire */
#define SAFE (EXPIRIES == 0 && CRASHES == 0)

hidden byte j, first, top, heard, woke; /* scratch, used within one atomic step */

/* --- scores: only their order matters, so they are kept as ranks --- */

inline forget(i) {
  if
  :: rank[i] != 0 ->
     for (j : 0 .. N-1) { if :: rank[j] > rank[i] -> rank[j]-- :: else fi }
     rank[i] = 0
  :: else
  fi
}

/* i's entry goes. Its score stays in use while the contender may give it back (law 3). */
inline unqueue(i) {
  queued[i] = false;
  if :: !scored[i] -> forget(i) :: else fi
}

/* i enters the queue with a score of now, which no command already on its way will match. */
inline enqueue(i) {
  forget(i);
  top = 0;
  for (j : 0 .. N-1) { if :: rank[j] > top -> top = rank[j] :: else fi }
  rank[i] = top + 1;
  queued[i] = true; scored[i] = true; lateScore[i] = false;
  if :: leaving[i] == 1 -> leaving[i] = 2 :: else fi
}

/* --- the scripts; each is used within one atomic step --- */

inline publish(i) {
  heard = reachable[i];
  if
  :: heard && !dead[i] -> assert(inbox[i] < 4); inbox[i]++
  :: !heard || dead[i] || LOSSY
  fi
}

/* The wake script as mended: it removes i's entry if its score is the given one, in any case; then, if the key is free,
   it wakes the first in the queue, and with back puts i at its end. It tells whether it woke anybody. */
inline wake(i, remove, back) {
  woke = false;
  if :: (remove) && queued[i] -> unqueue(i) :: else fi;
  do
  :: owner != 0 || woke -> break
  :: owner == 0 && !woke ->
     first = N;
     for (j : 0 .. N-1) { if :: queued[j] && (first == N || rank[j] < rank[first]) -> first = j :: else fi }
     if
     :: first == N -> break
     :: else -> unqueue(first); publish(first); woke = heard || CLUSTER
     fi
  od;
  if :: (back) && woke && !UNQUEUED -> enqueue(i) :: else fi
}

/* --- an instance --- */

#define contending(i) (waiting[i] > 0 && !busy[i])

inline poke(i) {
  if :: FORGETFUL && !asleep[i] :: else -> woken[i] = true fi
}

inline heed(i) {
  if :: MARK && !contending(i) && !busy[i] && (working[i] || asleep[i]) -> heedful[i] = true :: else fi
}

proctype contender(byte i) {
  byte id = 2 * i + 1; /* of the two owner ids of i, the one that no late release uses */
  byte turns = 0;
  bool had = false;
end_idle: {
  atomic {
    if
    :: waiting[i] > 0 -> working[i] = true; gone[i] = false; heedful[i] = false
    :: waiting[i] == 0 && woken[i] -> /* law 2: woken, and nobody waits any more */
       woken[i] = false;
       if :: NO_LAW2 || SWALLOW :: else -> passing[i]++ fi;
       goto end_idle
    fi
  }
look: /* the queue script */
  atomic {
    if
    :: gone[i] -> goto leave
    :: else -> woken[i] = false /* one that comes from here on is for the next look */
    fi;
    if
    :: owner == 0 && !polite[i] -> goto try
    :: (owner != 0 || polite[i]) && scored[i] -> queued[i] = true
    :: (owner != 0 || polite[i]) && !scored[i] -> enqueue(i)
    fi;
    brief[i] = (polite[i] && owner == 0 && !YIELD_LONG); polite[i] = false;
    if :: !ASK :: ASK -> told[(owner - 1) / 2] = true :: ASK -> skip /* lost */ fi
  }
  atomic { asleep[i] = true; working[i] = false }
sleep:
  atomic {
    (gone[i] || woken[i] || heedful[i] || brief[i] || POLL) ->
    asleep[i] = false; working[i] = true; heedful[i] = false; brief[i] = false;
    if :: TRUST && woken[i] && !gone[i] -> goto mine :: else -> goto look fi
  }
try: /* redislock's obtain */
  atomic {
    if :: owner == 0 -> owner = id :: else -> goto look fi; /* beaten: the score is kept (law 3) */
mine:
    if :: SAFE -> grants++; assert(grants == 1) /* exclusion */ :: else fi;
    busy[i] = true; woken[i] = false; gone[i] = false; heedful[i] = false;
    if
    :: waiting[i] == 0 -> goto release /* law 9 */
    :: else -> waiting[i]--; turns = (SLICE > 0 -> 1 : 0)
    fi
  }
turn:
  if
  :: atomic { waiting[i] > 0 && (SLICE == 0 || turns < SLICE) -> /* hand-off */
       waiting[i]--;
       if :: SLICE > 0 -> turns++ :: else fi
     };
     goto turn
  :: goto release
  :: atomic { late > 0 && lateId[i] == 0 -> /* lease lost, MaxHold, or a release without an answer: the floor goes first */
       late--; lateId[i] = id; id = 4 * i + 3 - id; lateScore[i] = scored[i]; scored[i] = false;
       busy[i] = false; working[i] = false; turns = 0
     };
     goto end_idle
  fi;
release: /* redislock's release, with COUNT together with a look at the queue's length */
  atomic {
    turns = 0;
    if :: owner == id -> owner = 0 :: else fi;
    if :: SAFE -> grants-- :: else fi
  }
  atomic {
    if
    :: COUNT && !queued[0] && !queued[1] && !queued[N-1] -> scored[i] = false; busy[i] = false; working[i] = false; goto end_idle
    :: else
    fi
  }
  atomic { /* and the wake script */
    had = scored[i]; scored[i] = false;
    if
    :: ASK && !told[i] -> woke = false; if :: had -> unqueue(i) :: else fi
    :: else -> wake(i, had, COURTESY && waiting[i] > 0)
    fi;
    had = false; told[i] = false; busy[i] = false; working[i] = false;
    if
    :: COURTESY && woke && waiting[i] > 0 -> asleep[i] = true; goto sleep
    :: else -> polite[i] = (YIELD && woke); goto end_idle
    fi
  }
leave: /* the last local waiter has left */
  atomic {
    !scored[i] || leaving[i] == 0 ->
    if :: scored[i] -> scored[i] = false; leaving[i] = (QUIET -> 0 : 1) :: else fi;
    working[i] = false;
    goto end_idle
  }
  } unless { dead[i] }
}

/* The subscription: wake-ups and confirmations come when they like. */
proctype receiver(byte i) {
end:
  do
  :: atomic { !reachable[i] && !dead[i] -> reachable[i] = true; confirmed[i] = true }
  :: atomic { confirmed[i] -> confirmed[i] = false; if :: contending(i) && !NO_LAW4 -> poke(i) :: else -> heed(i) fi } /* law 4 */
  :: atomic {
       inbox[i] > 0 -> inbox[i]--; heed(i);
       if
       :: contending(i) -> poke(i)
       :: !contending(i) && !NO_LAW2 -> assert(passing[i] < 4); passing[i]++ /* law 2 */
       :: !contending(i) && NO_LAW2
       fi
     }
  :: atomic { drops > 0 && reachable[i] -> drops--; reachable[i] = false; confirmed[i] = false; inbox[i] = 0 }
  od
}

/* Commands in the background: each runs when it likes. */
proctype background(byte i) {
  bool match = false;
end:
  do
  :: atomic { /* law 2 */
       passing[i] > 0 -> passing[i]--;
       wake(i, REMOVE_PASS && owner == 0, false)
     }
  :: atomic { /* leaving */
       leaving[i] > 0 -> match = (leaving[i] == 1 || REMOVE_LEAVE); leaving[i] = 0;
       if
       :: MUTE_LEAVE -> if :: match && queued[i] -> unqueue(i) :: else fi
       :: else -> wake(i, match, false)
       fi;
       match = false
     }
  :: atomic { leaving[i] > 0 && unsent > 0 -> unsent--; leaving[i] = 0 }
  :: atomic { /* a late release */
       lateId[i] != 0 && !lateDone[i] -> lateDone[i] = true;
       if :: owner == lateId[i] -> owner = 0 :: else fi;
       if :: SAFE -> grants-- :: else fi
     }
  :: atomic {
       lateDone[i] -> match = ((lateScore[i] && !QUIET) || (REMOVE_LATE && owner == 0));
       lateDone[i] = false; lateId[i] = 0; lateScore[i] = false;
       if :: NO_LATE_WAKE :: else -> wake(i, match, false) fi;
       match = false
     }
  od
}

/* Callers come, and may leave before they have a turn. */
proctype callers(byte i) {
end:
  do
  :: atomic { calls[i] > 0 && waiting[i] < ROOM ->
       waiting[i]++;
       if :: ENDLESS :: else -> calls[i]-- fi;
       if :: INHERIT -> gone[i] = false :: else fi
     }
  :: atomic { leaves > 0 && waiting[i] > 0 ->
       leaves--; waiting[i]--;
       if :: waiting[i] == 0 && (working[i] || asleep[i]) && !busy[i] -> gone[i] = true :: else fi
     }
  :: atomic { leaves > 0 -> leaves-- } /* nobody leaves: no stall may hide behind a waiter that could still go */
  od
}

/* --- the world --- */

#if EXPIRIES > 0 || CRASHES > 0
active proctype clock() {
end:
  do
  :: atomic { owner != 0 && dead[(owner - 1) / 2] -> owner = 0 }
  :: atomic { owner != 0 && expiries > 0 -> expiries--; owner = 0 }
  od
}
#endif

#if CRASHES > 0
active proctype fate() {
  byte i = 0;
end:
  do
  :: atomic { crashes > 0 ->
       crashes--;
       select(i : 0 .. N-1);
       dead[i] = true; calls[i] = 0; waiting[i] = 0; gone[i] = false; scored[i] = false; working[i] = false; asleep[i] = false;
       busy[i] = false; woken[i] = false; heedful[i] = false; polite[i] = false; brief[i] = false; confirmed[i] = false; inbox[i] = 0; passing[i] = 0; leaving[i] = 0;
       lateId[i] = 0; lateScore[i] = false; lateDone[i] = false;
       if :: reachable[i] = false :: skip /* the store has not noticed */ fi
     }
  :: atomic { crashes > 0 -> crashes-- }
  :: atomic { dead[i] && reachable[i] -> reachable[i] = false }
  od
}
#endif

init {
  byte i;
  atomic {
    for (i : 0 .. N-1) { run contender(i); run receiver(i); run background(i); run callers(i) }
  }
}

/* --- properties --- */

/* A sleeper that nothing will ever wake: no entry, no wake-up on its way or come, no confirmation to come. */
#define forgotten(i) (asleep[i] && !gone[i] && \
  !queued[i] && inbox[i] == 0 && !woken[i] && !heedful[i] && !brief[i] && !confirmed[i] && reachable[i])

/* Something of i's will look at the key, or run the wake script. */
#define acting(i) (working[i] || (waiting[i] > 0 && !asleep[i]) || gone[i] || (waiting[i] == 0 && woken[i]) || \
  inbox[i] > 0 || passing[i] > 0 || leaving[i] > 0 || lateId[i] != 0 || lateDone[i] || \
  (asleep[i] && (woken[i] || heedful[i] || brief[i] || confirmed[i] || !reachable[i])))

#define patient(i) (asleep[i] && !gone[i])
#define finished(i) (dead[i] || (calls[i] == 0 && waiting[i] == 0 && !working[i]))

/* N-1 is 1 or 2. */
#define FORGOTTEN (forgotten(0) || forgotten(1) || forgotten(N-1))
#define SWALLOWED (owner == 0 && (patient(0) || patient(1) || patient(N-1)) && !acting(0) && !acting(1) && !acting(N-1))
#define FINISHED  (finished(0) && finished(1) && finished(N-1))

#if !POLL
active proctype watch() {
end:
  atomic { (FORGOTTEN || SWALLOWED) -> assert(!FORGOTTEN); assert(!SWALLOWED) }
}
#endif

/* All callers are served, or have left or died. */
ltl served { <> FINISHED }

/* Callers without end: the key is never idle for good while anybody waits. */
ltl moving { [] ((waiting[0] > 0 || waiting[1] > 0) -> <> (busy[0] || busy[1])) }

/* Callers without end: no tenure outlasts its slice while another instance waits (law 7). That this instance is the one
   that gets the key then is likely (law 8) but not certain: who is awake may be beaten again and again. */
ltl freed { [] (waiting[1] > 0 -> <> (owner == 0 || busy[1])) }

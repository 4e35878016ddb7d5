/* How processes wait for each other: hand-over in the store. One key, N instances of the locker. The script that frees the
   key makes the first in the wait queue its owner, for the time of an offer, and tells that instance's inbox.

   The rows of package rowlocker take these steps too: row.pml has what is different there.

   To read this: Spin tries every order in which the steps below can happen. Whatever stands in atomic { } is one step; an
   if or do takes any of its branches (::) whose first condition holds; a process whose next condition does not hold waits.
   Every number is small, and may be set with spin -D.

   Left out are:
   - how long anything takes, except the order of an offer, a lease and a tick: other tests have the slice, drift and margin;
   - the order of callers, MaxWaiters, re-entry and terms: one claim has one TTL, and who queues again is last;
   - the message to the holder that somebody waits, the number of waiters in answers, plain redislock users (their release is
     like an expiry), renewals without an answer, processes that can never subscribe;
   - old entries that a failover brings back;
   - a request that is executed after the second release of its owner id: it costs the TTL;
   - whatever needs more instances, callers or mishaps at once than the bounds allow.

   The laws of package locker, with what the models have of the guard and of Redis:
   1  An offer is trusted until the time before the look that saw the entry was sent + the offer - drift - margin. After that
      the key is acquired again under the same owner id, and the tokens of the offer are thrown away.
   2  A claim whose first look had no answer never queues again under the same owner id.
   3  A grant is for nobody if its caller has left, its claim is over, or its process does not know the owner id.
   4  A late message is compared with the claim that waits now, and with the grant that is held now.
   5  In a Cluster the count of receivers proves nothing: offers there are short.
   6  An entry leaves in the background, whoever holds the key.
   7  Subscribe, be confirmed, look, sleep, in that order. Each confirmation makes the contender look. Without a confirmed
      subscription an entry only polls. Who rests looks at once when its subscription breaks.
   9  A tenure ends after its slice. The releaser queues under a new owner id if somebody in its process still waits.
   12 A release without an answer is repeated by owner id. If it has handed the key over already, the second does nothing.
   DIRECT, a claim in the queue that acquires without the look that takes its entry out, does no harm only because every
   release takes out its own entry, also when the key is not its own any more. */

/* --- size --- */
#ifndef N
#define N 2            /* instances: 2 or 3 */
#endif
#ifndef IDS
#define IDS 4          /* owner ids of an instance: one that has left no trace is as good as new */
#endif
#ifndef CALLS
#define CALLS 2        /* callers that arrive at each instance */
#endif
#ifndef ROOM
#define ROOM 1         /* callers that wait at one gate at a time */
#endif
#ifndef OFFER
#define OFFER 1        /* ticks that an offer lasts */
#endif
#ifndef SHORT
#define SHORT OFFER    /* ticks that it lasts if nobody is known to have heard of it, as in a cluster */
#endif
#ifndef TTL
#define TTL 2          /* ticks that a lease lasts */
#endif

/* --- what may go wrong: how often, at any moment --- */
#ifndef TICKS
#define TICKS 3        /* ticks in all; time may also stand still for good */
#endif
#ifndef LEAVES
#define LEAVES 1       /* waiters that give up */
#endif
#ifndef LATE
#define LATE 0         /* turns that end while the key stays (MaxHold, a lost lease): released in the background */
#endif
#ifndef UNCLEAR
#define UNCLEAR 0      /* requests without an answer: executed at any later moment */
#endif
#ifndef UNSENT
#define UNSENT 0       /* leaves whose release is never sent */
#endif
#ifndef DROPS
#define DROPS 0        /* subscriptions that break, with all that is in transit */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef FLUSHES
#define FLUSHES 0      /* the store forgets everything */
#endif
#ifndef FORGETS
#define FORGETS 0      /* the store forgets the wait queue (its TTL, an eviction) */
#endif
#ifndef UNSEENS
#define UNSEENS 0      /* claims that a release takes for dead, because nobody has seen them for a while */
#endif
#ifndef LOSSY
#define LOSSY 0        /* 1: any message may be lost, or all */
#endif
#ifndef CLUSTER
#define CLUSTER 0      /* 1: the count of receivers proves nothing */
#endif
#ifndef SPLIT
#define SPLIT 0        /* 1: an instance that is not counted may hear all the same, as from a replica */
#endif

/* --- the protocol --- */
#ifndef LOOKS
#define LOOKS 0        /* 1: a sleeper also wakes by itself, and looks */
#endif
#ifndef RESTS
#define RESTS 0        /* 1: a sleeper that is sure to be told never looks; it does once its subscription is not confirmed */
#endif
#ifndef STAYS
#define STAYS 0        /* 1: a subscription that breaks never comes back */
#endif
#ifndef SKIP
#define SKIP 0         /* 1: an entry that only polls is passed over; 0: it stops the hand-over, and the key is deleted */
#endif

#ifndef TOKENS
#define TOKENS 1       /* 0: exclusion alone is checked, not the order of fencing tokens */
#endif

/* --- planted faults: each must be caught --- */
#ifndef REQUEUE
#define REQUEUE 0      /* law 2: an owner id whose entry is gone is queued again */
#endif
#ifndef KEEP_ID
#define KEEP_ID 0      /* law 2: after a first look without an answer the same owner id is queued again */
#endif
#ifndef DIRECT
#define DIRECT 0       /* law 2: a claim in the queue acquires without the look that takes its entry out */
#endif
#ifndef FROM_NOW
#define FROM_NOW 0     /* law 1: an offer is trusted from when its message is read */
#endif
#ifndef FROM_ANY
#define FROM_ANY 0     /* law 1: ... from the last look, also one that did not find the entry and queued it again */
#endif
#ifndef IGNORE
#define IGNORE 0       /* law 3: a grant that nobody here wants is ignored */
#endif
#ifndef FREE_OWN
#define FREE_OWN 0     /* law 3: a grant that a look has taken already is released when its message comes */
#endif
#ifndef EAGER_FREE
#define EAGER_FREE 0   /* law 3: a grant for the gate's own claim is released if nobody sleeps when its message comes */
#endif
#ifndef LEFT_CLAIM
#define LEFT_CLAIM 0   /* law 3: the last waiter leaves, and its claim is forgotten, with the grant that has come for it */
#endif
#ifndef NO_HAND_ON
#define NO_HAND_ON 0   /* laws 3 and 8: a release that finds the key free hands nothing on */
#endif
#ifndef DEAF
#define DEAF 0         /* law 6: a confirmed subscription wakes nobody */
#endif
#ifndef UNNOTICED
#define UNNOTICED 0    /* law 6: who rests does not hear that the subscription has broken */
#endif
#ifndef TOLD_LONG
#define TOLD_LONG 0    /* law 1: a message tells of a longer offer than the store makes */
#endif
#ifndef TAKE_BACK
#define TAKE_BACK 0    /* law 5: an offer is made and told of, and taken back if nobody is counted */
#endif
#ifndef CUT_SHORT
#define CUT_SHORT 0    /* law 5: ... and cut short, if the claim only polls */
#endif
#ifndef OLD_TOKENS
#define OLD_TOKENS 0   /* who acquires again under the same owner id keeps the tokens that came with the offer */
#endif

#define GIVEN (CLUSTER -> SHORT : OFFER)
#define TOLD (TOLD_LONG -> OFFER : GIVEN)

#define LAST (N * IDS)
#define instance(id) (((id) - 1) / IDS)

/* --- the store --- */
byte owner;                     /* owner id in the key; 0: free */
byte ttl;                       /* ticks until the key ends */
chan queue = [LAST] of { byte } /* the wait queue: owner ids */
bool polls[LAST + 1];           /* this entry only polls */
bool reachable[N];              /* the subscription of the instance's inbox */
byte fenced;                    /* whose block of fencing tokens is the latest: all others are lower */

/* --- on its way --- */
byte message[LAST + 1];         /* "offered": for how many ticks; 0: none */
bool chore[LAST + 1];           /* a release in the background */
bool lateLook[LAST + 1], lateObtain[LAST + 1], lateRelease[LAST + 1];
bool mayAdd[LAST + 1];          /* with lateLook: it is the first of its owner id */
byte nextOf[LAST + 1];          /* with lateRelease: what it queues */

/* --- the instances --- */
#define NEW 0                   /* a claim that has never been sent to the queue */
#define QUEUED 1                /* its entry was there at the last answer */
#define OUT 2                   /* its entry is gone: never again under this owner id */
byte calls[N] = CALLS, waiting[N];
byte claim[N];                  /* the contender's owner id; 0: none */
byte stage[N];                  /* of the claim */
byte came[N];                   /* the message that grants the claim has come: its ticks; 0: it has not */
byte sent[N];                   /* what the request on its way may give, counted from when it was sent */
byte offer[N];                  /* rest of an offer to the claim, counted from the last look that saw its entry */
byte grant[N];                  /* owner id of the turn, also while it is released; 0: none */
byte trust[N];                  /* rest of the grant's lease */
bool inTurn[N], working[N], asleep[N], gone[N], poked[N];
bool subscribed[N];             /* confirmed, as the instance knows */
bool confirming[N];             /* the confirmation is on its way */
bool dead[N];

/* --- how much is left of what may happen --- */
byte ticks = TICKS, leaves = LEAVES, late = LATE, unclear = UNCLEAR, unsent = UNSENT, drops = DROPS, crashes = CRASHES,
  flushes = FLUSHES, forgets = FORGETS, unseens = UNSEENS;
bool old[LAST + 1];             /* only for the assertions: granted before the store forgot everything */

hidden byte j, x, first, rest, isOurs, isHanded, isStopped, isAdded; /* used within one step */

/* --- scripts --- */

#define isQueued(id) (queue??[eval(id)])

inline remove(id) { if :: isQueued(id) -> queue??eval(id) :: else fi }

inline give(id, ticksLeft) { owner = id; ttl = ticksLeft; old[id] = false; fenced = id }

/* Frees the key by owner id, or hands it over; takes id's own entry out; queues next, if the key was id's and is handed on. */
inline release(id, next) {
  isOurs = (owner == id); isHanded = false; isStopped = false; isAdded = false;
  remove(id);
  if
  :: isOurs || (owner == 0 && !NO_HAND_ON) ->
     owner = 0; ttl = 0; rest = len(queue);
     do
     :: rest == 0 -> break
     :: rest > 0 ->
        rest--; queue?first;
        if
        :: !isStopped && unseens > 0 -> unseens-- /* most likely dead: out of the queue */
        :: isStopped || polls[first] -> queue!first; if :: SKIP :: else -> isStopped = true fi
        :: SPLIT && !isStopped && polls[first] ->
           give(first, SHORT); isHanded = true; isStopped = true;
           if :: !dead[instance(first)] -> message[first] = (CUT_SHORT -> OFFER : SHORT) :: skip fi
        :: SPLIT && !isStopped && !polls[first] -> /* not counted: out of the queue, and the next one */
           if :: TAKE_BACK && !dead[instance(first)] -> message[first] = OFFER :: else fi
        :: !isStopped && !polls[first] && (reachable[instance(first)] || CLUSTER) ->
           give(first, GIVEN); isHanded = true; isStopped = true;
           if
           :: reachable[instance(first)] && !dead[instance(first)] -> message[first] = TOLD
           :: !reachable[instance(first)] || dead[instance(first)] || LOSSY
           fi
        :: else /* nobody there: out of the queue, and the next one */
        fi
     od;
     if :: isOurs && isHanded && next != 0 -> queue!next; polls[next] = false; isAdded = true :: else fi
  :: else
  fi
}

/* --- an instance --- */

#define inUse(id) (claim[instance(id)] == id || grant[instance(id)] == id)
#define isLate(id) (lateLook[id] || lateObtain[id] || lateRelease[id])

/* A new claim, under an owner id that nobody remembers. */
inline newClaim(i) {
  claim[i] = 0;
  for (x : i*IDS+1 .. i*IDS+IDS) {
    if
    :: claim[i] == 0 && grant[i] != x && owner != x && !isQueued(x) && message[x] == 0 && !chore[x] && !isLate(x) ->
       claim[i] = x;
       for (j : 1 .. LAST) { if :: nextOf[j] == x -> claim[i] = 0 :: else fi }
    :: else
    fi
  }
  assert(claim[i] != 0); /* IDS is too small */
  if :: fenced == claim[i] -> fenced = 0 :: else fi;
  old[claim[i]] = false; polls[claim[i]] = false; stage[i] = NEW; came[i] = 0; offer[i] = 0
}

inline noClaim(i) { claim[i] = 0; stage[i] = NEW; came[i] = 0; offer[i] = 0 }

/* The claim is over; what may be left of it in the store is released in the background. */
inline giveUp(i) { chore[claim[i]] = true; noClaim(i) }

#define alive(i) (inTurn[i] && trust[i] > 0 && !old[grant[i]] && !dead[i])
#define EXCLUSION (!(alive(0) && alive(1)) && (N == 2 || !(alive(0) && alive(N-1)) && !(alive(1) && alive(N-1))))

proctype contender(byte i) {
end: {
  atomic {
    waiting[i] > 0 -> working[i] = true; gone[i] = false;
    if :: claim[i] == 0 -> newClaim(i) :: else fi
  }
begin:
  atomic {
    if
    :: gone[i] -> goto leave
    :: !gone[i] && came[i] > 0 -> goto accept
    :: !gone[i] && came[i] == 0 && (stage[i] != QUEUED || DIRECT) -> sent[i] = TTL
    :: !gone[i] && came[i] == 0 && stage[i] == QUEUED -> sent[i] = OFFER; goto look
    fi
  }
obtain: /* redislock's: sets the key if it is free or has this owner id */
  if
  :: atomic { owner == 0 || owner == claim[i] ->
       if
       :: OLD_TOKENS && stage[i] == OUT -> owner = claim[i]; ttl = TTL; old[claim[i]] = false
       :: else -> give(claim[i], TTL)
       fi;
       trust[i] = sent[i]; sent[i] = 0 };
     goto mine
  :: atomic { owner != 0 && owner != claim[i] ->
       if :: stage[i] == OUT && !REQUEUE && !FROM_ANY -> giveUp(i); newClaim(i) :: else fi; /* law 2 */
       sent[i] = OFFER }
  :: atomic { unclear > 0 -> unclear--; sent[i] = 0; lateObtain[claim[i]] = true }; goto begin
  fi;
look: /* the queue script */
  if
  :: atomic { owner == 0 || owner == claim[i] -> /* free or ours */
       remove(claim[i]);
       if :: stage[i] == QUEUED -> stage[i] = OUT; offer[i] = 0 :: else fi;
       sent[i] = TTL };
     goto obtain
  :: atomic { owner != 0 && owner != claim[i] ->
       if
       :: isQueued(claim[i]) -> stage[i] = QUEUED; offer[i] = sent[i]; polls[claim[i]] = !subscribed[i]
       :: !isQueued(claim[i]) && (stage[i] == NEW || REQUEUE || FROM_ANY) ->
          queue!claim[i]; polls[claim[i]] = !subscribed[i];
          if :: stage[i] == NEW || FROM_ANY -> offer[i] = sent[i] :: else fi;
          stage[i] = QUEUED
       :: else -> giveUp(i); newClaim(i); sent[i] = OFFER; goto look /* law 2 */
       fi;
       sent[i] = 0 }
  :: atomic { unclear > 0 ->
       unclear--; sent[i] = 0; lateLook[claim[i]] = true; mayAdd[claim[i]] = (stage[i] == NEW);
       if :: stage[i] == NEW && !KEEP_ID -> giveUp(i); newClaim(i) :: else fi /* law 2 */
     };
     goto begin
  fi;
  atomic { asleep[i] = true; working[i] = false }
sleep:
  atomic {
    (gone[i] || came[i] > 0 || poked[i] || LOOKS || (RESTS && !subscribed[i] && !UNNOTICED)) ->
    asleep[i] = false; working[i] = true; poked[i] = false; goto begin
  }
accept: /* a message is a hint: how long it may be trusted, the last look says (law 1) */
  atomic {
    stage[i] = OUT;
    if :: FROM_NOW -> offer[i] = OFFER :: else fi;
    if
    :: offer[i] > OFFER - came[i] -> trust[i] = offer[i] - (OFFER - came[i]); offer[i] = 0; came[i] = 0
    :: else -> sent[i] = TTL; came[i] = 0; goto obtain
    fi
  }
mine:
  atomic {
    if
    :: trust[i] == 0 -> giveUp(i); newClaim(i); goto begin /* it has aged on its way to the turn */
    :: else
    fi;
    inTurn[i] = true; grant[i] = claim[i]; noClaim(i); gone[i] = false; poked[i] = false;
    assert(EXCLUSION);
    assert(!TOKENS || fenced == grant[i] || old[grant[i]]); /* tokens rise: no later block has been reserved */
    if :: waiting[i] == 0 -> goto free :: else -> waiting[i]-- fi /* law 3 */
  }
turn:
  if
  :: atomic { waiting[i] > 0 && trust[i] > 0 -> waiting[i]-- }; goto turn /* hand-off */
  :: atomic { owner == grant[i] && trust[i] > 0 && trust[i] < TTL && ticks > 0 -> ttl = TTL; trust[i] = TTL }; goto turn /* renewal */
  :: atomic { trust[i] == 0 || late > 0 ->
       if :: trust[i] > 0 -> late-- :: else fi;
       inTurn[i] = false; trust[i] = 0; chore[grant[i]] = true; grant[i] = 0; working[i] = false };
     goto end
  :: goto free
  fi;
free: /* law 7: who still waits here is queued by the same script, under a new owner id */
  atomic {
    inTurn[i] = false; trust[i] = 0;
    if :: waiting[i] > 0 -> newClaim(i); sent[i] = OFFER :: else fi
  }
  if
  :: atomic { release(grant[i], claim[i]);
       if :: isAdded -> stage[i] = QUEUED; offer[i] = sent[i] :: else fi;
       sent[i] = 0; grant[i] = 0; working[i] = false }
  :: atomic { unclear > 0 -> unclear--; /* law 8 */
       lateRelease[grant[i]] = true; nextOf[grant[i]] = claim[i]; chore[grant[i]] = true;
       if :: claim[i] != 0 -> giveUp(i) :: else fi;
       sent[i] = 0; grant[i] = 0; working[i] = false }
  fi;
  atomic {
    if
    :: stage[i] == QUEUED && waiting[i] > 0 -> asleep[i] = true; gone[i] = false; goto sleep
    :: claim[i] != 0 && waiting[i] == 0 -> goto leave
    :: else -> goto end
    fi
  }
leave: /* the last waiter has left; but if another has come, it takes the claim over */
  atomic {
    gone[i] = false; working[i] = false;
    if
    :: claim[i] != 0 && waiting[i] == 0 && !LEFT_CLAIM -> giveUp(i)
    :: claim[i] != 0 && waiting[i] == 0 && (LEFT_CLAIM || unsent > 0 && came[i] == 0) ->
       if :: LEFT_CLAIM :: else -> unsent-- fi;
       noClaim(i)
    :: else
    fi;
    goto end
  }
  } unless { dead[i] }
}

/* What is on its way under one owner id arrives when it likes. */
proctype traffic(byte id) {
  byte i = instance(id);
end:
  do
  :: atomic { message[id] > 0 ->
       if
       :: EAGER_FREE && claim[i] == id && !asleep[i] -> chore[id] = true
       :: !(EAGER_FREE && !asleep[i]) && claim[i] == id -> came[i] = message[id]
       :: claim[i] != id && grant[i] == id && !FREE_OWN /* a look was faster */
       :: claim[i] != id && (grant[i] != id || FREE_OWN) -> if :: IGNORE :: else -> chore[id] = true fi /* law 3 */
       fi;
       message[id] = 0 }
  :: atomic { chore[id] -> chore[id] = false; release(id, 0) }
  /* Late requests. Each owner id with an unclear request is released once more, after the request: law 8. */
  :: atomic { lateObtain[id] ->
       lateObtain[id] = false;
       if :: owner == 0 || owner == id -> give(id, TTL) :: else fi;
       if :: inUse(id) || dead[i] :: else -> chore[id] = true fi }
  :: atomic { lateLook[id] ->
       lateLook[id] = false;
       if
       :: owner == 0 || owner == id -> remove(id)
       :: owner != 0 && owner != id && mayAdd[id] && !isQueued(id) -> queue!id
       :: else
       fi;
       mayAdd[id] = false;
       if :: inUse(id) || dead[i] :: else -> chore[id] = true fi }
  :: atomic { lateRelease[id] ->
       lateRelease[id] = false;
       release(id, nextOf[id]);
       if :: nextOf[id] == 0 || dead[i] :: else -> chore[nextOf[id]] = true fi;
       nextOf[id] = 0 }
  od
}

/* Callers and the subscription of one instance. */
proctype surroundings(byte i) {
end:
  do
  :: atomic { calls[i] > 0 && waiting[i] < ROOM -> waiting[i]++; calls[i]-- }
  :: atomic { leaves > 0 && waiting[i] > 0 ->
       leaves--; waiting[i]--;
       if :: waiting[i] == 0 && (working[i] || asleep[i]) && grant[i] == 0 -> gone[i] = true :: else fi }
  :: atomic { !reachable[i] && !dead[i] && !STAYS -> reachable[i] = true; confirming[i] = true }
  :: atomic { confirming[i] ->
       confirming[i] = false; subscribed[i] = true;
       if :: (waiting[i] > 0 || asleep[i]) && !DEAF -> poked[i] = true :: else fi } /* law 6 */
  :: atomic { drops > 0 && reachable[i] ->
       drops--; reachable[i] = false; confirming[i] = false; subscribed[i] = false;
       for (x : i*IDS+1 .. i*IDS+IDS) { message[x] = 0 } }
  od
}

/* --- the world --- */

#define age(v) if :: v > 0 -> v-- :: else fi

/* What never happens is given up for good: no waiter that sleeps for ever may hide behind what could still come. */
active proctype world() {
  byte i = 0;
end:
  do
  :: atomic { ticks > 0 ->
       ticks--;
       if :: owner != 0 -> ttl--; if :: ttl == 0 -> owner = 0 :: else fi :: else fi;
       for (j : 0 .. N-1) { age(offer[j]); age(sent[j]); age(trust[j]) } }
  :: atomic { ticks > 0 -> ticks = 0 }
  :: atomic { owner != 0 && dead[instance(owner)] -> owner = 0; ttl = 0 }
  :: atomic { leaves > 0 -> leaves = 0 }
#if FLUSHES > 0
  :: atomic { flushes > 0 ->
       flushes--; owner = 0; ttl = 0; fenced = 0;
       for (j : 1 .. LAST) { remove(j); old[j] = true } }
  :: atomic { flushes > 0 -> flushes = 0 }
#endif
#if FORGETS > 0
  :: atomic { forgets > 0 -> forgets--; for (j : 1 .. LAST) { remove(j) } }
#endif
#if CRASHES > 0
  :: atomic { crashes > 0 ->
       crashes--;
       select(i : 0 .. N-1);
       dead[i] = true; calls[i] = 0; waiting[i] = 0; noClaim(i); grant[i] = 0; trust[i] = 0; sent[i] = 0;
       inTurn[i] = false; working[i] = false; asleep[i] = false; gone[i] = false; poked[i] = false;
       subscribed[i] = false; confirming[i] = false;
       for (x : i*IDS+1 .. i*IDS+IDS) { message[x] = 0; chore[x] = false }
       if :: reachable[i] = false :: skip fi; /* the store may not have noticed */
       i = 0 }
  :: atomic { crashes > 0 -> crashes = 0 }
  :: atomic { dead[0] && reachable[0] -> reachable[0] = false }
  :: atomic { dead[1] && reachable[1] -> reachable[1] = false }
  :: atomic { dead[N-1] && reachable[N-1] -> reachable[N-1] = false }
#endif
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. N-1) { run contender(i); run surroundings(i); reachable[i] = true; subscribed[i] = true }
    for (i : 1 .. LAST) { run traffic(i) }
    i = 0
  }
}

/* --- properties --- */

/* Every waiter is served, or has left or died. Without LOOKS nothing goes round, so that a search for states in which all
   stand still says the same, and says it faster. */
#define finished(i) (dead[i] || (calls[i] == 0 && waiting[i] == 0 && !working[i]))
#define FINISHED (finished(0) && finished(1) && finished(N-1))
ltl served { <> FINISHED }

/* Fencing tokens with hand-offs: two instances take one key in turn, each grant has several turns, one fetch reserves a
   block of tokens, and a resource rejects tokens lower than the highest it has seen. Leases may end under their holders
   at any time, answers may come late, functions may go on after their turn.

   How long a counter must live: Redis needs the counter of a key only while its clock alone would not give a higher token.
   The counter ends by that same clock, so the clock has read at least its end, and reads less only if it steps back. Hence
   tokens rise if the counter lives until the clock has passed its last token, and then for as long as the clock may step
   back in all. The lease's TTL adds nothing.

   The counter leads the clock only above 15,000 grants a second of one key: more than one block of 64 in 64 us. A script that
   adds the lead (px = life + max(0, last - now)) is right at any rate. redislocker's life is 20 minutes: ntpd without -g
   refuses to correct more than 1,000 s, and chrony steps only at its start. At 1,000 new fenced keys a second that takes
   some 155 MiB, where a day would take 10.9 GiB. If an operator sets the clock back further after a counter has ended,
   tokens are lower until the clock has caught up, and the resource refuses those writes. A counter that is flushed, evicted
   or lost in a failover has ended early: the step back must then be less than the time since the last token. */

#ifndef GRANTS
#define GRANTS 2       /* grants in all */
#endif
#ifndef TURNS
#define TURNS 3        /* turns of one grant at most */
#endif
#ifndef BLOCK
#define BLOCK 2        /* tokens of one fetch */
#endif
#ifndef EXPIRIES
#define EXPIRIES 1     /* leases that end under a live holder */
#endif
#ifndef FAILOVER
#define FAILOVER 0     /* 1: a new primary may appear that knows neither lease nor tokens; the old one stays reachable */
#endif
#ifndef EAGER
#define EAGER 0        /* WithFencing: 1: obtain and fetch are one atomic step; 2: something may come between */
#endif
#ifndef HANDOVER
#define HANDOVER 0     /* 1: a release may make the other instance the owner, and reserve its block, in one atomic step */
#endif
#ifndef CLOCK
#define CLOCK 0        /* how far the clock moves on; 0: it stands still, and a counter never ends */
#endif
#ifndef BACK
#define BACK 0         /* how far the clock steps back, in all */
#endif
#ifndef LIFE
#define LIFE 0         /* how long a counter lives after the clock has passed its last token */
#endif

/* Planted faults: each must be caught */
#ifndef REUSE
#define REUSE 0        /* a hand-off passes the token on */
#endif
#ifndef LATE_FETCH
#define LATE_FETCH 0   /* a turn that is over may still fetch, and gets a number */
#endif
#ifndef LATE_BLOCK
#define LATE_BLOCK 0   /* nobody waits for a fetch in flight, and a block that comes late is used all the same */
#endif
#ifndef NO_OWNER
#define NO_OWNER 0     /* the fence script does not compare the owner */
#endif
#ifndef PLAIN_INCR
#define PLAIN_INCR 0   /* the fence script counts without the clock */
#endif
#ifndef LOOK_LAZY
#define LOOK_LAZY 0    /* WithFencing: a hand-over that nobody heard of is found by a look, and its token is fetched later */
#endif
#ifndef FROM_CLOCK
#define FROM_CLOCK 0   /* a counter lives from now, not from when the clock has passed its last token */
#endif
#ifndef TRUSTING
#define TRUSTING 0     /* the resource accepts every token */
#endif

#define SERVERS (1 + FAILOVER)
#define ORDER(g, k) (((g) - 1) * TURNS + (k) - 1) /* of all turns: by grant, then within it */

/* The store. A grant's number serves as its owner id. */
byte owner[2];
byte last[2];          /* last token given */
byte ends[2];          /* when that counter is forgotten, by the same clock */
byte now = 1 + BACK;   /* the clock that all servers share */
bool failed = false;   /* the new primary is up */
byte granted = 0;

/* What was handed over to each instance, and has not been taken: it may never be */
byte offered[2];       /* 0: nothing */
byte offeredBlock[2];

/* The grant of each instance, as its process sees it */
byte grant[2];         /* 0: none */
byte turn[2];          /* whose turn it is */
byte block[2];         /* first token of the block; 0: none */
byte since[2];         /* the turn that its first token belongs to */
bool fetching[2];

/* The resource, and ghosts */
byte highest = 0;
byte latest = 0;       /* 1 + ORDER of the latest turn that wrote */
byte given[GRANTS * TURNS];
byte expiries = EXPIRIES, forth = CLOCK, back = BACK;

hidden byte o;

/* Tokens rise strictly in grant order, whenever they are asked for. */
inline give(g, k, t) {
  for (o : 0 .. GRANTS * TURNS - 1) {
    if
    :: given[o] != 0 && o < ORDER(g, k) -> assert(given[o] < t)
    :: given[o] != 0 && o > ORDER(g, k) -> assert(given[o] > t)
    :: else
    fi
  }
  given[ORDER(g, k)] = t
}

inline fence(s, g, b) {
  b = 0;
  if
  :: owner[s] == g || NO_OWNER ->
     b = last[s] + 1;
     if :: !PLAIN_INCR && now > b -> b = now :: else fi;
     last[s] = b + BLOCK - 1;
     ends[s] = (last[s] > now && !FROM_CLOCK -> last[s] : now) + LIFE;
     now = now + FAILOVER * BLOCK /* only a lost counter needs a clock that moves: by more than a block per round trip */
  :: else
  fi
}

/* The server that a command reaches: the old primary, or once it is up the new one. */
inline pick(s) {
  if :: s = 0 :: failed -> s = 1 fi
}

/* fn in turn k of grant g: it asks for its token and writes with it, when it likes, even long after its turn. */
proctype fn(byte i; byte g; byte k) {
  byte t = 0, s = 0;
ask:
  atomic {
    (LATE_BLOCK || !fetching[i] || grant[i] != g) ->
    if
    :: grant[i] == g && turn[i] == k && block[i] != 0 && k - since[i] < BLOCK ->
       t = (REUSE -> block[i] : block[i] + k - since[i]); give(g, k, t); goto write
    :: grant[i] == g && turn[i] == k && (block[i] == 0 || k - since[i] >= BLOCK) -> fetching[i] = true
    :: (grant[i] != g || turn[i] != k) && LATE_FETCH
    :: (grant[i] != g || turn[i] != k) && !LATE_FETCH -> goto over /* ErrLeaseLost */
    fi
  }
  atomic { pick(s); fence(s, g, t); s = 0 }
  atomic {
    if
    :: grant[i] == g ->
       fetching[i] = false;
       if :: t != 0 && (turn[i] == k || LATE_BLOCK) -> block[i] = t; since[i] = turn[i] :: else fi
    :: else
    fi;
    if
    :: t != 0 && grant[i] == g && turn[i] == k -> give(g, k, t)
    :: t != 0 && (grant[i] != g || turn[i] != k) && LATE_FETCH -> give(g, k, t)
    :: else -> goto over /* ErrLeaseLost, or thrown away */
    fi
  }
write:
  atomic {
    if
    :: t >= highest || TRUSTING ->
       assert(ORDER(g, k) + 1 >= latest); /* no stale write is accepted */
       highest = (t > highest -> t : highest); latest = ORDER(g, k) + 1
    :: else
    fi
  }
over:
  t = 0
}

proctype instance(byte i) {
  byte s = 0, b = 0;
end:
  do
  :: atomic { /* obtain */
       granted < GRANTS -> pick(s);
       if
       :: owner[s] == 0 || (offered[i] != 0 && owner[s] == offered[i]) ->
          offered[i] = 0; offeredBlock[i] = 0; granted++; owner[s] = granted; grant[i] = granted; turn[i] = 0; block[i] = 0; since[i] = 0; fetching[i] = false;
          if :: EAGER == 1 -> fence(s, grant[i], b) :: else fi
       :: else -> s = 0; goto end
       fi
     };
     if
     :: EAGER == 2 -> atomic { fence(s, grant[i], b) }
     :: else
     fi;
     atomic { if :: EAGER && b != 0 -> block[i] = b; since[i] = 1 :: else fi; b = 0 };
turns:
     if
     :: EAGER && !LOOK_LAZY && block[i] == 0 -> skip /* lost before the first turn */
     :: else ->
        do
        :: atomic { turn[i] < TURNS -> turn[i]++; run fn(i, grant[i], turn[i]) }
        :: turn[i] > 0 -> break
        od
     fi;
     atomic { /* release */
       if
       :: owner[s] == grant[i] ->
          owner[s] = 0;
          if
          :: HANDOVER && granted < GRANTS && grant[1-i] == 0 && offered[1-i] == 0 ->
             granted++; owner[s] = granted; offered[1-i] = granted;
             fence(s, granted, b); offeredBlock[1-i] = b; b = 0
          :: skip
          fi
       :: else
       fi;
       grant[i] = 0; turn[i] = 0; s = 0
     }
  :: atomic { /* what was handed over: by its message, or by a look, which knows no token */
       offered[i] != 0 -> pick(s);
       grant[i] = offered[i]; turn[i] = 0; block[i] = 0; since[i] = 0; fetching[i] = false;
       if :: block[i] = offeredBlock[i]; since[i] = 1 :: !EAGER || LOOK_LAZY -> skip fi;
       offered[i] = 0; offeredBlock[i] = 0
     };
     goto turns
  od
}

active proctype world() {
  byte s = 0;
end:
  do
  :: atomic { expiries > 0 -> pick(s); expiries--; owner[s] = 0; s = 0 }
  :: atomic { FAILOVER && !failed -> failed = true }
  :: atomic { forth > 0 -> forth--; now++ }
  :: atomic { back > 0 -> back--; now-- }
  :: atomic { CLOCK && last[0] != 0 && now > ends[0] -> last[0] = 0; ends[0] = 0 }
  od
}

init { atomic { run instance(0); run instance(1) } }

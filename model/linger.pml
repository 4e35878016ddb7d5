/* How a key stays with its process when no call there uses it. One key, two processes with calls without an end.

   handover.pml has how one waits for a key, and says how to read this. Left out here are its mishaps, the message of a
   hand-over (a look finds it), requests that travel (each is one step, but is counted from before it was sent), renewals
   behind the first, several calls in line, Linger and the tenure (half of the offer bounds both), and which keys linger.

   What holds, beside the laws of package locker:
   - A grant may be idle if its claim lingers, found the key free, and has not been renewed. Its lease is an offer.
   - A turn begins on an idle grant without a request, until half of that offer by the clock of the process.
   - Clock law: that clock is never behind by more than MARGIN, and a turn stops as much before its lease ends.
   - An idle key is released when half of the offer is over, another process wants the key, or the inbox turns deaf.
   - Law 21: each look tells the owner again. Time may stand still for good, so nobody is served by an end of a lease. */

#define OFFER 4
#define HALF 2         /* of the offer */
#define TTL 5          /* of a grant that was renewed, or handed over */
#define MARGIN 1

/* --- what may go wrong --- */
#ifndef LAG
#define LAG MARGIN     /* ticks that the clock of a process may be behind */
#endif
#ifndef LOSSES
#define LOSSES 0       /* messages that are lost */
#endif
#ifndef DROPS
#define DROPS 0        /* inboxes that turn deaf, which the process notices later; they may hear again */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif

/* --- planted faults: each must be caught --- */
#ifndef BEYOND
#define BEYOND 0       /* an idle grant is used until the end of its offer */
#endif
#ifndef IGNORE
#define IGNORE 0       /* an idle key stays though another process wants it; a turn still ends with a release */
#endif
#ifndef TELL_ONCE
#define TELL_ONCE 0    /* law 21: only the look that queues the claim tells the owner */
#endif
#ifndef DEAF_IDLE
#define DEAF_IDLE 0    /* a grant becomes idle though the inbox is deaf */
#endif
#ifndef DEAF_KEEPS
#define DEAF_KEEPS 0   /* an inbox that turns deaf frees no idle key */
#endif
#ifndef STAYS_BRIEF
#define STAYS_BRIEF 0  /* a grant that was renewed becomes idle */
#endif

#define LAST (BEYOND -> OFFER : HALF) /* from here on an idle grant is not used */

/* --- the store --- */
byte owner;            /* process + 1; 0: free */
byte ttl;              /* ticks until the key ends */
bool lingers;          /* the claim of the owner does */
bool queued[2];

/* --- the processes --- */
bool told[2];          /* a message that the key is wanted is on its way */
bool deaf[2];          /* the inbox is */
bool hears[2] = true;  /* the inbox is not deaf, as the process knows */
bool calls[2];         /* somebody calls */
bool waits[2];         /* ... and has been refused */
bool inTurn[2], idle[2], dead[2];
bool brief[2];         /* the grant may become idle */
bool wanted[2];        /* ... but must be released, as the process knows */
byte lease[2];         /* length; 0: no grant, no request */
byte age[2];           /* of the lease, by the clock of the process */
byte behind[2];        /* ticks that this clock has still to make */

byte losses = LOSSES, drops = DROPS, crashes = CRASHES;
bool still;            /* time stands still for good */

inline own(i, ticks, stays) { owner = i+1; ttl = ticks; lingers = stays; lease[i] = ticks; brief[i] = stays; waits[i] = false }

inline tell(to) {
  if
  :: !deaf[to] && !dead[to] -> told[to] = true
  :: deaf[to] || dead[to]
  :: losses > 0 -> losses--
  fi
}

proctype process(byte i) {
rest: {
  atomic { calls[i] -> brief[i] = hears[i] }
look:
  atomic { lease[i] = OFFER; age[i] = 0; wanted[i] = false } /* counted from here */
  atomic {
    if
    :: owner == 0 && age[i] < OFFER-MARGIN && !waits[i] -> own(i, OFFER, brief[i])
    :: owner == 0 && age[i] < OFFER-MARGIN && waits[i] -> queued[i] = false; own(i, OFFER, false)
    :: owner == i+1 && age[i] < OFFER-MARGIN -> own(i, TTL, false) /* handed over */
    :: (owner == 0 || owner == i+1) && age[i] >= OFFER-MARGIN -> goto look /* too late */
    :: owner == 2-i ->
       if :: !queued[i] || (lingers && !TELL_ONCE) -> tell(1-i) :: else fi;
       queued[i] = true; waits[i] = true; lease[i] = 0; age[i] = 0; goto look
    fi
  }
begin:
  atomic {
    if :: age[i] >= lease[i]-MARGIN && !(idle[i] && BEYOND) -> goto free :: else fi; /* too late */
    calls[i] = false; idle[i] = false; inTurn[i] = true; assert(!(inTurn[0] && inTurn[1]))
  }
turn:
  if
  :: atomic { inTurn[i] && owner == i+1 && brief[i] && lease[i] == OFFER -> /* renewal */
       ttl = TTL; lease[i] = TTL; age[i] = 0; brief[i] = STAYS_BRIEF };
     goto turn
  :: atomic { inTurn[i] && brief[i] && !wanted[i] && age[i] < HALF && (hears[i] || DEAF_IDLE) ->
       inTurn[i] = false; idle[i] = true; assert(owner != i+1 || ttl <= OFFER) }
  :: atomic { !inTurn[i] || !brief[i] || wanted[i] || age[i] >= HALF || !hears[i] -> inTurn[i] = false; goto free }
  fi;
  if
  :: atomic { calls[i] && age[i] < LAST && (!wanted[i] || IGNORE) -> goto begin } /* without a request */
  :: age[i] >= LAST || (wanted[i] && !IGNORE)
  fi;
free:
  atomic {
    idle[i] = false; brief[i] = false; wanted[i] = false; lease[i] = 0; age[i] = 0;
    if
    :: owner == i+1 && queued[1-i] -> queued[1-i] = false; owner = 2-i; ttl = OFFER; lingers = false
    :: owner == i+1 && !queued[1-i] -> owner = 0; ttl = 0; lingers = false
    :: else
    fi;
    goto rest
  }
  } unless { dead[i] }
}

/* The inbox and the clock of a process. */
proctype surroundings(byte i) {
end:
  do
  :: atomic { told[i] -> told[i] = false; wanted[i] = (lease[i] > 0 && !dead[i]) }
  :: atomic { deaf[i] && hears[i] -> hears[i] = false; if :: lease[i] > 0 && !DEAF_KEEPS -> wanted[i] = true :: else fi }
  :: atomic { behind[i] > 0 ->
       behind[i]--;
       if :: lease[i] > 0 && age[i] < TTL -> age[i]++ :: else fi;
       if :: age[i] == lease[i]-MARGIN -> inTurn[i] = false :: else fi } /* the turn is told once, and stops */
  :: atomic { dead[i] && owner == i+1 -> owner = 0; ttl = 0; lingers = false }
  od
}

active proctype world() {
  byte i;
  do
  :: atomic { select(i : 0 .. 1); calls[i] = !dead[i]; i = 0 }
  :: atomic { !still && behind[0] < LAG && behind[1] < LAG ->
       behind[0]++; behind[1]++;
       if :: ttl > 0 -> ttl--; if :: ttl == 0 -> owner = 0; lingers = false :: else fi :: else fi }
  :: still = true
  :: atomic { drops > 0 -> drops--; select(i : 0 .. 1); deaf[i] = true; told[i] = false; i = 0 }
  :: atomic { deaf[0] && !hears[0] -> deaf[0] = false; hears[0] = true; wanted[0] = (lease[0] > 0) }
  :: atomic { deaf[1] && !hears[1] -> deaf[1] = false; hears[1] = true; wanted[1] = (lease[1] > 0) }
  :: atomic { crashes > 0 ->
       crashes--; select(i : 0 .. 1);
       dead[i] = true; calls[i] = false; waits[i] = false; inTurn[i] = false; idle[i] = false; lease[i] = 0; age[i] = 0;
       told[i] = false; i = 0 }
  od
}

init { byte i; atomic { for (i : 0 .. 1) { run process(i); run surroundings(i) } } }

/* Nobody waits for ever. */
ltl served { [] (waits[1] -> <> !waits[1]) }

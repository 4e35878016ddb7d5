/* A key that stays with its process when no call there uses it. One key, two processes, calls without an end.

   handover.pml has how one waits for a key, and says how to read this. Left out here are what it leaves out, its mishaps,
   the message of a hand-over (a look finds it), requests that travel (each is one step, but its lease counts from before),
   renewals behind the first, several calls in line, Linger and the tenure (half of the offer bounds both), and which keys
   linger.

   What holds, beside the laws of package locker:
   - A claim lingers only if the inbox is known to hear. Its grant may be idle if it found the key free, and until a renewal
     begins. Its lease is an offer.
   - A turn begins on an idle grant without a request, until half of the offer is over, or the key is being released.
   - An idle key is released when half of the offer is over, another process wants it, or the inbox turns deaf. A grant
     does not become idle if one of these came during its try or its turn.
   - Law 4: a claim that waits tells the owner again at each look. */

#define OFFER 3        /* ticks that the lease of a grant that may be idle lasts */
#define HALF 1         /* of them */
#define TTL 4          /* of any other grant */

/* --- what may go wrong: how often, at any moment --- */
#ifndef TICKS
#define TICKS 0        /* ticks in all; time may also stand still for good: no waiter needs the end of a lease */
#endif
#ifndef LOSSES
#define LOSSES 0       /* messages that are lost */
#endif
#ifndef DROPS
#define DROPS 0        /* inboxes that turn deaf, which the process notices later */
#endif
#ifndef STAYS
#define STAYS 0        /* 1: a deaf inbox never hears again */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif

/* --- planted faults: each must be caught --- */
#ifndef BEYOND
#define BEYOND 0       /* a turn begins on an idle grant whatever the time is */
#endif
#ifndef NO_WARDEN
#define NO_WARDEN 0    /* ... while its key is released */
#endif
#ifndef IGNORE
#define IGNORE 0       /* an idle key stays though another process wants it; the end of a turn still releases the key */
#endif
#ifndef IGNORE_BUSY
#define IGNORE_BUSY 0  /* what comes during a try or a turn is forgotten when the grant becomes idle */
#endif
#ifndef TELL_ONCE
#define TELL_ONCE 0    /* law 4: only the look that queues the claim tells the owner */
#endif
#ifndef DEAF_IDLE
#define DEAF_IDLE 0    /* a claim lingers though the inbox is deaf */
#endif
#ifndef DEAF_KEEPS
#define DEAF_KEEPS 0   /* an inbox that turns deaf frees no key */
#endif
#ifndef DEAF_TRY
#define DEAF_TRY 0     /* ... is forgotten if it does so while a try is under way */
#endif
#ifndef STAYS_BRIEF
#define STAYS_BRIEF 0  /* a grant whose renewal has begun becomes idle */
#endif

/* --- the store --- */
byte owner;            /* process + 1; 0: free */
byte ttl;              /* ticks until the key ends */
bool lingers;          /* the claim of the owner does */
bool queued[2];

/* --- the processes --- */
bool told[2];          /* a message that the key is wanted is on its way */
bool deaf[2];          /* the inbox is */
bool hears[2] = true;  /* it is not, as the process knows */
bool waits[2];         /* a claim has been refused */
bool inTurn[2], dead[2];
bool brief[2];         /* the grant, or that of the try, may become idle */
bool wanted[2];        /* ... but must be released */
byte left[2];          /* of the lease, as the process knows; 0: neither grant nor try, or not to be trusted */

byte ticks = TICKS, losses = LOSSES, drops = DROPS, crashes = CRASHES;

inline vacate() { owner = 0; ttl = 0; lingers = false }

/* The key is i's for so many ticks, of which the process has counted some. */
inline own(i, length, stays) {
  owner = i+1; ttl = length; lingers = stays; brief[i] = stays; queued[i] = false; waits[i] = false
}

inline tell(to) {
  if
  :: deaf[to] || dead[to]
  :: !deaf[to] && !dead[to] -> told[to] = true
  :: !deaf[to] && !dead[to] && losses > 0 -> losses--
  fi
}

proctype process(byte i) {
end: {
  brief[i] = hears[i] || DEAF_IDLE;
look:
  atomic { left[i] = (brief[i] && !waits[i] -> OFFER : TTL) } /* sent */
  atomic {
    if
    :: left[i] == 0 -> goto look
    :: left[i] > 0 && owner == 0 -> own(i, (brief[i] && !waits[i] -> OFFER : TTL), brief[i] && !waits[i])
    :: left[i] > 0 && owner == i+1 -> own(i, TTL, false) /* handed over */
    :: left[i] > 0 && owner == 2-i ->
       if :: !queued[i] || lingers && !TELL_ONCE -> tell(1-i) :: else fi;
       queued[i] = true; waits[i] = true; left[i] = 0; goto look
    fi
  }
  if :: DEAF_TRY && !hears[i] -> wanted[i] = false :: else fi;
begin:
  atomic {
    if :: left[i] == 0 -> goto release :: else fi; /* too late */
take:
    inTurn[i] = true; assert(!(inTurn[0] && inTurn[1]))
  }
turn:
  if
  :: atomic { left[i] > 0 && owner == i+1 && brief[i] && lingers -> /* renewal */
       ttl = TTL; left[i] = TTL; lingers = false; brief[i] = STAYS_BRIEF };
     goto turn
  :: atomic { brief[i] && (!wanted[i] || IGNORE_BUSY) && left[i] > HALF ->
       inTurn[i] = false; wanted[i] = false; assert(ttl <= OFFER) } /* idle: a process that dies costs the others that */
  :: atomic { !brief[i] || wanted[i] || left[i] <= HALF -> inTurn[i] = false; goto release }
  fi;
  if
  :: !wanted[i] && left[i] > HALF -> goto begin /* a call */
  :: BEYOND -> goto take
  :: wanted[i] && !IGNORE || left[i] <= HALF
  fi;
release: /* the script */
  atomic {
    if
    :: owner == i+1 && queued[1-i] -> queued[1-i] = false; owner = 2-i; ttl = TTL; lingers = false
    :: owner == i+1 && !queued[1-i] -> vacate()
    :: else
    fi;
    if :: NO_WARDEN && brief[i] && left[i] > 0 -> goto begin :: else fi;
    brief[i] = false; wanted[i] = false; left[i] = 0; goto end
  }
  } unless { dead[i] }
}

/* The inbox of a process. */
proctype inbox(byte i) {
end:
  do
  :: atomic { told[i] -> told[i] = false; wanted[i] = true }
  :: atomic { deaf[i] && hears[i] -> hears[i] = false; wanted[i] = !DEAF_KEEPS || wanted[i] }
  :: atomic { deaf[i] && !hears[i] && !STAYS -> deaf[i] = false; hears[i] = true }
  od
}

active proctype world() {
  byte j;
end:
  do
  :: atomic { ticks > 0 ->
       ticks--;
       if :: ttl > 0 -> ttl--; if :: ttl == 0 -> vacate() :: else fi :: else fi;
       for (j : 0 .. 1) { if :: left[j] > 0 -> left[j]--; if :: left[j] == 0 -> inTurn[j] = false :: else fi :: else fi };
       j = 0 }
  :: ticks > 0 -> ticks = 0 /* what never happens */
  :: atomic { drops > 0 -> drops--; select(j : 0 .. 1); deaf[j] = true; told[j] = false; j = 0 }
  :: drops > 0 -> drops = 0
  :: atomic { crashes > 0 ->
       crashes--; select(j : 0 .. 1); dead[j] = true; waits[j] = false; inTurn[j] = false; brief[j] = false;
       wanted[j] = false; left[j] = 0; told[j] = false; j = 0 }
  :: crashes > 0 -> crashes = 0
  :: atomic { owner > 0 && dead[owner-1] -> vacate() }
  od
}

init { byte i; atomic { for (i : 0 .. 1) { run process(i); run inbox(i) } } }

/* Nobody waits for ever. */
ltl served { [] (waits[1] -> <> !waits[1]) }

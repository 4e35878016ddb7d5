/* What a lease may rely on if a failover loses the last writes. One key, two processes, turns without an end.

   handover.pml has how one waits for a key, and says how to read this. Left out here are the queue, messages, idle keys,
   requests that travel or have no answer, drift and margin. A hand-over is a release and an acquire of a short lease.

   What holds, beside the laws of package locker:
   - The replicas have an acquire before its turn begins (WithReplicas). They may lack what was written last.
   - The renewal that makes a lease longer adds no trust. The next one does. Until then the lease is trusted for what it was.
   - A lease of full length is renewed again, or found lost, a third of the TTL after its last renewal. A failover that takes
     longer is outside the promise. A short lease needs no such bound: it ends by itself. */

#define TTL 6
#define THIRD 2        /* of it */
#ifndef FIRST
#define FIRST 2        /* ticks of the first lease: an offer, or that of a key that lingers */
#endif
#ifndef LOST
#define LOST 1         /* writes that a failover may lose */
#endif

/* --- what may go wrong: how often, at any moment --- */
#ifndef TICKS
#define TICKS 9        /* ticks in all */
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif

/* --- planted faults: each must be caught --- */
#ifndef AT_ONCE
#define AT_ONCE 0      /* the renewal that makes a lease longer is trusted at once */
#endif
#ifndef UNCONFIRMED
#define UNCONFIRMED 0  /* the replicas may lack an acquire */
#endif
#ifndef TOO_LATE
#define TOO_LATE 0     /* a lease of full length is renewed whenever it likes */
#endif

/* The store: [0] as it is, [n] as it was before the last n writes. */
byte owner[LOST+1];    /* process + 1; 0: free */
byte ttl[LOST+1];      /* ticks until the key ends */

bool inTurn[2];
byte trust[2];         /* ticks that the lease is trusted; 0: none */
bool grown[2];         /* a renewal has given it its full TTL */
bool whole[2];          /* it is trusted for that */
byte age[2];           /* ticks since the last renewal */

byte ticks = TICKS, failovers = FAILOVERS;
hidden byte j;

inline write(who, length) {
  for (j : 0 .. LOST-1) { owner[LOST-j] = owner[LOST-1-j]; ttl[LOST-j] = ttl[LOST-1-j] }
  owner[0] = who; ttl[0] = length
}

/* The replicas have all that was written. */
inline confirm() { for (j : 1 .. LOST) { owner[j] = owner[0]; ttl[j] = ttl[0] } }

inline over(i) { inTurn[i] = false; trust[i] = 0; whole[i] = false; grown[i] = false; age[i] = 0 }

proctype process(byte i) {
end:
  do
  :: atomic { !inTurn[i] && owner[0] == 0 ->
       write(i+1, FIRST);
       if :: UNCONFIRMED :: else -> confirm() fi;
       trust[i] = FIRST; whole[i] = (FIRST == TTL); age[i] = 0; inTurn[i] = true;
       assert(!(inTurn[0] && inTurn[1])) }
  :: atomic { inTurn[i] && owner[0] == i+1 -> /* renewal */
       write(i+1, TTL);
       if
       :: whole[i] || grown[i] || AT_ONCE -> trust[i] = TTL; whole[i] = true
       :: else -> grown[i] = true
       fi;
       age[i] = 0 }
  :: atomic { inTurn[i] && owner[0] != i+1 -> over(i) } /* a renewal that finds it lost */
  :: atomic { inTurn[i] && owner[0] == i+1 -> write(0, 0); over(i) } /* release */
  od
}

#define dueNow(i) (inTurn[i] && whole[i] && age[i] >= THIRD && !TOO_LATE)

active proctype world() {
end:
  do
  :: atomic { ticks > 0 && !dueNow(0) && !dueNow(1) ->
       ticks--;
       for (j : 0 .. LOST) { if :: ttl[j] > 0 -> ttl[j]--; if :: ttl[j] == 0 -> owner[j] = 0 :: else fi :: else fi };
       for (j : 0 .. 1) {
         if
         :: trust[j] > 1 -> trust[j]--; age[j]++
         :: trust[j] == 1 -> over(j)
         :: else
         fi
       } }
  :: atomic { failovers > 0 && owner[1] != owner[0] || failovers > 0 && ttl[1] != ttl[0] ->
       failovers--; owner[0] = owner[LOST]; ttl[0] = ttl[LOST]; confirm() }
  od
}

init { byte i; atomic { for (i : 0 .. 1) { run process(i) } } }

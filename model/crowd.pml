/* Who may own a key together: shared leases and permits by one rule of counting. One key, N instances of the locker, each with
   a limit: how many may own the key at once, itself included. 1: for itself (a writer); many: shared (a reader); n: permits.
   A claim may have the key if fewer own it than its limit, and than that of each who does. The first WRITERS instances
   are writers, the others have LIMIT. In the manner of handover.pml, whose laws about one owner are not checked again here.
   The rows of package rowlocker take these steps too, see row.pml. */

#ifndef N
#define N 4
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef IDS
#define IDS 2
#endif
#ifndef LIMIT
#define LIMIT 9        /* of those that are no writers; 9: shared */
#endif
#ifndef LOW
#define LOW LIMIT      /* of the last instance */
#endif
#ifndef CALLS
#define CALLS 1        /* of each instance; 9: for ever */
#endif
#ifndef WCALLS
#define WCALLS CALLS   /* of each writer */
#endif
#ifndef OFFER
#define OFFER 1
#endif
#ifndef TTL
#define TTL 2
#endif

/* mishaps */
#ifndef TICKS
#define TICKS 2
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef UNSENT
#define UNSENT 0       /* leaves whose release is never sent */
#endif
#ifndef UNCLEAR
#define UNCLEAR 0      /* enters, looks and releases without an answer, executed at any later moment */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSY
#define LOSSY 0
#endif
#ifndef LATE
#define LATE 0         /* turns that end while the key stays: released in the background */
#endif
#ifndef HOG
#define HOG 0          /* 1: the last instance's turn never ends */
#endif
#ifndef LOOKS
#define LOOKS 0
#endif
#ifndef SLICE
#define SLICE 1        /* a party takes nobody else in after its slice */
#endif
#ifndef JOINS
#define JOINS 0        /* 1: a party takes others in as long as it is open */
#endif
#ifndef STALES
#define STALES 0
#endif
#ifndef CLUSTER
#define CLUSTER 1      /* the count of receivers proves nothing */
#endif

/* planted faults */
#ifndef BARGE
#define BARGE 0        /* newcomers join though somebody waits who may not */
#endif
#ifndef FREE_ALL
#define FREE_ALL 0     /* the release of one member frees the key */
#endif
#ifndef NEWEST
#define NEWEST 0       /* the key ends with the share given last, not with the last share */
#endif
#ifndef REVIVE
#define REVIVE 0       /* a renewal puts back a share that has ended */
#endif
#ifndef FROM_NOW
#define FROM_NOW 0     /* an offer is trusted from when its message is read */
#endif
#ifndef REQUEUE
#define REQUEUE 0      /* an owner id whose entry has gone is queued again */
#endif
#ifndef IGNORE
#define IGNORE 0       /* a grant for nobody is ignored */
#endif
#ifndef NO_SERVE
#define NO_SERVE 0     /* a look serves nobody but itself: 1 */
#endif
#ifndef MUTE_LEAVE
#define MUTE_LEAVE 0   /* who leaves takes his entry out, and serves nobody behind it */
#endif
#ifndef ONE
#define ONE 0          /* a release serves only the first of a run */
#endif
#ifndef OWN_LIMIT
#define OWN_LIMIT 0    /* only the limit of who asks counts, not those of who owns */
#endif
#ifndef FOREVER
#define FOREVER 0      /* who waits in front keeps newcomers out, whether he is seen or not */
#endif
#ifndef FREE_OWN
#define FREE_OWN 0     /* a grant that a look has taken is released when its message comes */
#endif

#define LAST (N * IDS)
#define inst(id) (((id) - 1) / IDS)

/* the store */
byte excl, exclT;                /* owner id of an exclusive hold, and its rest */
byte share[LAST + 1];            /* rest of each member's share; 0: none */
byte keyT;                       /* NEWEST: rest of the key */
chan queue = [LAST] of { byte };
bool unseen[LAST + 1];           /* a claim in the queue that was not seen for so long that newcomers may pass it */

/* on its way */
bool message[LAST + 1], wanted[N], behindOf[LAST + 1];
bool chore[LAST + 1], lateEnter[LAST + 1], lateRelease[LAST + 1], mayAdd[LAST + 1];

/* the instances */
byte lim[N], calls[N];
byte claim[N], grant[N], sent[N], offer[N], trust[N];
bool queued[N], came[N], inTurn[N], asleep[N], gone[N], dead[N], open[N], waits[N], served[N];
bool cameBehind[N]; bool ready;

byte ticks = TICKS, leaves = LEAVES, unclear = UNCLEAR, crashes = CRASHES, late = LATE, unsent = UNSENT;

hidden byte x, y, n, low, first, l, res, isNew, m;
hidden byte fst, before;

#define isQueued(id) (queue??[eval(id)])
inline remove(id) { if :: isQueued(id) -> queue??eval(id) :: else fi }

/* Members and the lowest limit of them. */
inline count() {
  n = 0; low = 9;
  for (x : 1 .. LAST) {
    if :: share[x] > 0 -> n++; if :: lim[inst(x)] < low && !OWN_LIMIT -> low = lim[inst(x)] :: else fi :: else fi }
}
#define room(limit) (n == 0 || (n < (limit) && n < low))

inline serve() {
  isNew = false; m = 0;
  do
  :: len(queue) == 0 || excl != 0 || (ONE && isNew) -> break
  :: len(queue) > 0 && excl == 0 && !(ONE && isNew) ->
     queue?<first>; l = lim[inst(first)];
     if
     :: room(l) ->
        queue?first;
        if
        :: CLUSTER || !dead[inst(first)] ->
           isNew = true;
           if
           :: l == 1 -> excl = first; exclT = OFFER
           :: else -> share[first] = OFFER; keyT = OFFER; n++; if :: l < low && !OWN_LIMIT -> low = l :: else fi
           fi;
           if
           :: !dead[inst(first)] -> message[first] = true
           :: dead[inst(first)] || LOSSY
           fi
        :: else
        fi
     :: else -> break
     fi
  od;
  for (x : 1 .. LAST) { if :: message[x] && (share[x] > 0 || excl == x) -> behindOf[x] = (len(queue) > 0) :: else fi }
}

/* fst: whether somebody who was seen stands in front of id, or in front of a newcomer. */
inline ahead(id) {
  fst = false; before = true; m = len(queue);
  for (x : 1 .. m) {
    queue?first; queue!first;
    if
    :: first == id -> before = false
    :: first != id && before && (!unseen[first] || FOREVER) -> fst = true
    :: else
    fi }
}

inline tellMembers() {
  for (x : 1 .. LAST) {
    if :: share[x] > 0 && !dead[inst(x)] -> if :: wanted[inst(x)] = true :: LOSSY fi :: else fi }
}

inline release(id) {
  remove(id); count();
  if
  :: excl == id -> excl = 0; exclT = 0; serve()
  :: excl != 0 && excl != id
  :: excl == 0 ->
     share[id] = 0; 
     if :: FREE_ALL -> for (x : 1 .. LAST) { share[x] = 0 } :: else fi;
     count();
     if :: MUTE_LEAVE && n > 0 :: else -> serve() fi
  fi
}

/* takeshare.lua, and obtain and look.lua for a writer: res 1: owner now; 2: queued; 3: not queued */
inline enter(id, add) {
  res = 0; count(); unseen[id] = false;
  if
  :: excl == id -> exclT = TTL; remove(id); res = 1
  :: excl != 0 && excl != id
  :: excl == 0 ->
     if :: n > 0 && len(queue) > 0 && !NO_SERVE -> serve() :: else fi;
     if
     :: share[id] > 0 -> share[id] = TTL; keyT = TTL; remove(id); res = 1
     :: excl == id -> exclT = TTL; res = 1
     :: share[id] == 0 && excl == 0 && room(lim[inst(id)]) ->
        ahead(id);
        if
        :: n == 0 || !fst || BARGE ->
           remove(id);
           if
           :: lim[inst(id)] == 1 -> excl = id; exclT = TTL
           :: else -> share[id] = TTL; keyT = TTL
           fi;
           res = 1
        :: else
        fi
     :: else
     fi
  fi;
  if
  :: res == 0 ->
     if
     :: isQueued(id) -> res = 2
     :: !isQueued(id) && add -> queue!id; res = 2;
        if
        :: excl != 0 && !dead[inst(excl)] -> if :: wanted[inst(excl)] = true :: LOSSY fi
        :: excl == 0 -> ahead(id); if :: !fst -> tellMembers() :: else fi
        :: else
        fi
     :: else -> res = 3
     fi
  :: else
  fi
}

#define inUse(id) (claim[inst(id)] == id || grant[inst(id)] == id)

inline newClaim(i) {
  claim[i] = 0;
  for (y : i*IDS+1 .. i*IDS+IDS) {
    if
    :: claim[i] == 0 && grant[i] != y && excl != y && share[y] == 0 && !isQueued(y) && !message[y] && !chore[y] && !lateEnter[y] && !lateRelease[y] ->
       claim[i] = y
    :: else
    fi
  };
  queued[i] = false; came[i] = false; offer[i] = 0
}
inline noClaim(i) { claim[i] = 0; queued[i] = false; came[i] = false; offer[i] = 0 }
inline giveUp(i) { chore[claim[i]] = true; noClaim(i) }

#define alive(i) (inTurn[i] && trust[i] > 0 && !dead[i])

/* No writer beside anybody; of others at most as many as the strictest allows. */
inline check() {
  n = 0; low = 9;
  for (x : 0 .. N-1) { if :: alive(x) -> n++; if :: lim[x] < low -> low = lim[x] :: else fi :: else fi };
  assert(n <= low)
}

proctype contender(byte i) {
end: {
  atomic { calls[i] > 0 -> waits[i] = true; gone[i] = false; served[i] = false; newClaim(i);
    if :: claim[i] == 0 -> waits[i] = false; goto end :: else fi } /* no id is free: wait until one is */
begin:
  atomic {
    if
    :: gone[i] -> goto leave
    :: !gone[i] && came[i] -> goto accept
    :: else -> sent[i] = TTL
    fi }
try:
  if
  :: atomic { enter(claim[i], !queued[i] || REQUEUE);
       if
       :: res == 1 -> trust[i] = sent[i]; sent[i] = 0; open[i] = (len(queue) == 0); goto mine
       :: res == 2 -> offer[i] = (sent[i] < OFFER -> sent[i] : OFFER);
            if :: sent[i] < TTL && sent[i] + OFFER > TTL -> offer[i] = sent[i] + OFFER - TTL :: sent[i] == TTL -> offer[i] = OFFER :: else -> offer[i] = 0 fi;
            queued[i] = true; sent[i] = 0
       :: res == 3 -> giveUp(i); newClaim(i); sent[i] = 0;
            if :: claim[i] == 0 -> waits[i] = false; goto end :: else -> goto begin fi
       fi }
  :: atomic { unclear > 0 -> unclear--; sent[i] = 0; lateEnter[claim[i]] = true; mayAdd[claim[i]] = !queued[i];
       noClaim(i); newClaim(i);
       if :: claim[i] == 0 -> waits[i] = false; goto end :: else -> goto begin fi }
  fi;
  atomic { asleep[i] = true }
sleep:
  atomic { (gone[i] || came[i] || LOOKS) -> asleep[i] = false; goto begin }
accept:
  atomic {
    came[i] = false;
    if :: FROM_NOW -> offer[i] = OFFER :: else fi;
    if
    :: offer[i] > 0 -> trust[i] = offer[i]; offer[i] = 0; open[i] = !cameBehind[i]
    :: else -> queued[i] = true; sent[i] = TTL; goto try
    fi }
mine:
  atomic {
    if :: trust[i] == 0 -> giveUp(i); waits[i] = false; open[i] = false; goto end :: else fi;
    inTurn[i] = true; waits[i] = false; served[i] = true; grant[i] = claim[i]; noClaim(i); gone[i] = false;
    if :: wanted[i] -> open[i] = false :: else fi; wanted[i] = false;
    if :: lim[i] == 1 || !JOINS -> open[i] = false :: else fi;
    check();
    if :: calls[i] < 9 -> calls[i]-- :: else fi }
turn:
  if
  :: atomic { open[i] && trust[i] > 0 -> skip }; goto turn /* others join the party */
  :: atomic { trust[i] > 0 && trust[i] < TTL && ticks > 0 && sent[i] == 0 -> sent[i] = TTL }; goto turn /* a renewal is sent */
  :: atomic { sent[i] > 0 -> /* and carried out, perhaps late: its answer may be faster than the timer */
       if
       :: excl == grant[i] -> exclT = TTL; trust[i] = (sent[i] > trust[i] -> sent[i] : trust[i])
       :: excl != grant[i] && (share[grant[i]] > 0 || (REVIVE && excl == 0)) ->
          share[grant[i]] = TTL; keyT = TTL; trust[i] = (sent[i] > trust[i] -> sent[i] : trust[i])
       :: else -> trust[i] = 0
       fi;
       sent[i] = 0; check() }; goto turn
  :: atomic { (trust[i] == 0 || late > 0) && sent[i] == 0 ->
       if :: trust[i] > 0 -> late-- :: else fi;
       inTurn[i] = false; trust[i] = 0; chore[grant[i]] = true; grant[i] = 0; open[i] = false }; goto end
  :: atomic { (!HOG || i != N-1) && sent[i] == 0 -> inTurn[i] = false; trust[i] = 0; open[i] = false }
  fi;
  if
  :: atomic { release(grant[i]); grant[i] = 0 }
  :: atomic { unclear > 0 -> unclear--; lateRelease[grant[i]] = true; chore[grant[i]] = true; grant[i] = 0 }
  fi;
  goto end;
leave:
  atomic { gone[i] = false; waits[i] = false; if :: claim[i] != 0 && unsent > 0 && !came[i] -> unsent--; noClaim(i) :: claim[i] != 0 -> giveUp(i) :: claim[i] == 0 fi; if :: calls[i] < 9 -> calls[i]-- :: else fi; goto end }
  } unless { dead[i] }
}

/* What is on its way of one instance. */
proctype traffic(byte i) {
  byte id;
end:
  do
  :: atomic { message[i*IDS+1] -> id = i*IDS+1; goto got }
  :: atomic { message[i*IDS+IDS] -> id = i*IDS+IDS; goto got }
  :: atomic { wanted[i] && grant[i] != 0 -> wanted[i] = false; open[i] = false }
  :: atomic { wanted[i] && grant[i] == 0 && claim[i] == 0 -> wanted[i] = false }
  :: atomic { open[i] && SLICE -> open[i] = false }
  :: atomic { chore[i*IDS+1] -> chore[i*IDS+1] = false; release(i*IDS+1) }
  :: atomic { chore[i*IDS+IDS] -> chore[i*IDS+IDS] = false; release(i*IDS+IDS) }
  :: atomic { lateEnter[i*IDS+1] -> id = i*IDS+1; goto entering }
  :: atomic { lateEnter[i*IDS+IDS] -> id = i*IDS+IDS; goto entering }
  :: atomic { lateRelease[i*IDS+1] -> lateRelease[i*IDS+1] = false; release(i*IDS+1) }
  :: atomic { lateRelease[i*IDS+IDS] -> lateRelease[i*IDS+IDS] = false; release(i*IDS+IDS) }
  od;
got:
  atomic {
    message[id] = false;
    if
    :: claim[i] == id -> came[i] = true; cameBehind[i] = behindOf[id]
    :: claim[i] != id && grant[i] == id && !FREE_OWN
    :: claim[i] != id && (grant[i] != id || FREE_OWN) -> if :: IGNORE :: else -> chore[id] = true fi
    fi;
    behindOf[id] = false; id = 0; goto end }
entering:
  atomic {
    lateEnter[id] = false;
    enter(id, mayAdd[id]); mayAdd[id] = false;
    if :: inUse(id) || dead[i] :: else -> chore[id] = true fi;
    id = 0; goto end }
}

#define age(v) if :: v > 0 -> v-- :: else fi

active proctype world() {
  byte i = 0;
end:
  do
  :: atomic { ticks > 0 ->
       ticks--;
       if :: excl != 0 -> exclT--; if :: exclT == 0 -> excl = 0 :: else fi :: else fi;
       for (x : 1 .. LAST) { age(share[x]) };
       age(keyT);
       if :: NEWEST && keyT == 0 -> for (x : 1 .. LAST) { share[x] = 0 } :: else fi;
       for (x : 0 .. N-1) { age(offer[x]); age(sent[x]); age(trust[x]) } }
  :: atomic { ticks > 0 -> ticks = 0 }
  :: atomic { excl != 0 && dead[inst(excl)] -> excl = 0; exclT = 0 }
#if CRASHES > 0
  :: atomic { dead[0] && (share[1] > 0 || share[2] > 0) -> for (x : 1 .. IDS) { share[x] = 0 } }
  :: atomic { dead[N-1] && (share[LAST-1] > 0 || share[LAST] > 0) -> for (x : LAST-IDS+1 .. LAST) { share[x] = 0 } }
  :: atomic { dead[1] && (share[IDS+1] > 0 || share[2*IDS] > 0) -> for (x : IDS+1 .. 2*IDS) { share[x] = 0 } }
  :: atomic { dead[2] && (share[2*IDS+1] > 0 || share[3*IDS] > 0) -> for (x : 2*IDS+1 .. 3*IDS) { share[x] = 0 } }
  :: atomic { crashes > 0 ->
       crashes--;
       select(i : 0 .. N-1);
       if
       :: HOG && i == N-1
       :: else ->
       dead[i] = true; calls[i] = 0; noClaim(i); grant[i] = 0; trust[i] = 0; sent[i] = 0; waits[i] = false;
       inTurn[i] = false; asleep[i] = false; gone[i] = false; open[i] = false; wanted[i] = false;
       for (x : i*IDS+1 .. i*IDS+IDS) { message[x] = false; chore[x] = false }
       fi;
       i = 0 }
  :: atomic { crashes > 0 -> crashes = 0 }
  /* nobody is left who would look: the queue ends with its TTL, dead heads are found by the looks of others */
#endif
#if LEAVES > 0
  :: atomic { leaves > 0 -> select(i : 0 .. N-1); if :: waits[i] && grant[i] == 0 -> leaves--; gone[i] = true :: else fi; i = 0 }
  :: atomic { leaves > 0 -> leaves = 0 }
#endif
  od
}

#if STALES
/* Time goes on also where ticks are not counted: a claim in the queue is not seen for a while, whether or not it lives. */
active proctype stale() {
end:
  do
  :: atomic { len(queue) > 0 -> queue?<first>; if :: !unseen[first] -> unseen[first] = true :: else fi; first = 0 }
  od
}
#endif

init {
  byte i;
  atomic {
    for (i : 0 .. N-1) {
      if :: i < WRITERS -> lim[i] = 1; calls[i] = WCALLS :: else -> lim[i] = LIMIT; calls[i] = CALLS fi;
    }
    lim[N-1] = LOW;
    for (i : 0 .. N-1) { run contender(i); run traffic(i) }
    ready = true; i = 0
  }
}

#define idle(i) (ready && (dead[i] || (calls[i] == 0 && !waits[i])))
/* all calls are served, or their instances have died; the hog only has to get in */
ltl done { <> (idle(0) && idle(1) && idle(2) && (HOG || idle(N-1))) }
/* with others for ever: the writers get theirs */
ltl writers { <> (idle(0) && (WRITERS < 2 || idle(1))) }
/* ... the readers get theirs */
ltl readers { <> (idle(WRITERS) && idle(N-1)) }
/* for ever: the first writer, and the last reader, again and again */
ltl again0 { [] (waits[0] -> <> (!waits[0])) }
ltl againN { [] (waits[N-1] -> <> (!waits[N-1])) }
/* beside a reader that stays: once the writer has left, died or been served, the other readers come in */
ltl rest { [] ((ready && idle(0)) -> <> (idle(1) && idle(2))) }
/* the first two have died, perhaps one as a holder and one in front of the queue: the third is served */
ltl third { [] ((dead[0] && dead[1]) -> <> idle(2)) }

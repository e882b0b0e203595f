/* The lanes with everybody around them: processes that take and handle items, a platform that repeats what was not
 * acknowledged, time, a replica that takes over. The assertions say what must hold; README.md says it in words.
 *
 * Lane 0 is a card that sends a mail (with `several`, to two people; with `engine`, it starts a request): item 1 presses *Send*, item 2 presses it again,
 * item 3 is its expiry, put by a timer. Lane 1 is a conversation: item 4 is a message, whose commit sets the timer; item 5
 * is how the card ended, put by whoever ends it. With `set`, lane 1 is a set of this card and another one, of which nothing
 * is told but its press; item 4 is a press on the set, which puts item 1. With `cluster`, neither lane's scripts reach the
 * other's partition, and the engine's records lie on a server of their own. With `alone`, no replica confirms, and only the memory of living processes helps.
 *
 * Asked for by the environment: which items the platform delivers (bits of `from_outside`), and how often may happen:
 * `crashes` of processes; `pauses` of a process for longer than its lease; `failures` of handlers and calls; `copies` of
 * calls, of which one arrives at another time (an answer was lost, or the first try was slow); `stops`; `failovers`. */

#define NUMBER byte
#define LANES 2
#define ITEMS 5
#define ROOM 4
#define LANE(M) ((M) >= 4 -> 1 : 0)
#define PLAN(L, W) R.when[L] = W
#define IS_DUE(L) (R.when[L] == DUE)
#define PRESS 1
#define AGAIN 2
#define EXPIRY 3
#define MESSAGE 4
#define OUTCOME 5
#define MAX_TRIES 2                                        /* `Lanes.max_tries` */
#define TELLS(M, Y) (((M) == MESSAGE && !set) || (Y))      /* whether the commit of an item writes in the other lane */
#define BESIDE(L, M, Y) if :: !cluster && TELLS(M, Y) -> tell(L, M) :: else fi
#define IS_DOUBTED (unnoticed[0] || unnoticed[1])
#define PRESS_FROM_SET if :: !cluster -> apply(0, PRESS, 0); answer = OK :: else fi
bit engine, several, set, cluster, alone;
byte server;                                               /* counts who was the master */

/* What each living process remembers: items that it has accepted, and what it has begun (1 the mail, 2 the one to the second
 * person). It lays that down again when it notices that another server took over (`Lanes.lay_down_again`). */
byte accepted[2], began[2];
bit unnoticed[2];
#include "store.pml"

inline tell(L, M) {                                        /* writes.lua: in another partition */
  apply(1 - (L), (M == MESSAGE -> MESSAGE : OUTCOME), (M == MESSAGE))
}

byte from_outside, crashes, pauses, failures, copies, stops, failovers;

#define BEGUN(P) (((P) & 3) == 1 || ((P) & 12) == 4)       /* a part is begun, and it is not known whether it is done */
#define NEXT_PART(P) ((P) & 2 -> 4 : 1)

/* The platform: how often it has delivered an item, and that it waits for an answer. */
byte deliveries[ITEMS + 1];
bit underway[ITEMS + 1];
#define DELIVERIES 2
#define IS_FIRST (deliveries[PRESS] + deliveries[AGAIN] + deliveries[MESSAGE] == 0)
#define OFFERS(M) ((from_outside & BIT(M)) && !acknowledged[M] && !refused[M] && !underway[M] \
  && deliveries[M] < DELIVERIES && !(me && IS_FIRST))      /* processes are alike: the first one begins */

/* What really happened, whatever the store has lost. */
bit acknowledged[ITEMS + 1], refused[ITEMS + 1];           /* what the platform and its person were told */
byte mails, sender;                                        /* how many are out, and which press sent them */
byte others;                                               /* how many are out to the second person */
byte shown;                                                /* the effect that the card shows */
bit halted[ITEMS + 1];                                     /* somebody has said *stop* after the item was put */

/* What each process believes: its lane + 1, its token, and that its lease is fresh (`Lease.assert_held`). */
byte lane_of[2], token_of[2];
bit fresh[2];
#define IS_HELD_BY(W, L) (lane_of[W] == (L) + 1 && token_of[W] == R.token[L])
#define IS_HELD(L) (IS_HELD_BY(0, L) || IS_HELD_BY(1, L))

/* The replica has a copy, older than what the master has. */
Store S;
bit lags;
#define IS_CONFIRMED (alone || from == server)             /* a server that is gone never says so */

/* In a cluster, the engine's records have a server of their own: who was its master, and what its replica has. */
byte shard;
bit shard_lags, shard_copy;
#define IS_APART (cluster && engine)
#define SERVERS (16 * shard + from)
inline confirm_engine() { shard_lags = 0; shard_copy = 0 }  /* Lanes.confirm_engine */

/* A copy of a call, which is on its way; its caller waits. */
byte flies, late_l, late_t, late_m, late_x, late_y, late_w;
bit waits[2];

#define MEANWHILE skip                                      /* others go on: a goto from one atomic step to another one joins them */
#define CRASH :: (crashes > 0) -> crashes--; goto killed

/* Calls a script. What its answer brings is read in the same step. */
#define CALL(CODE, SCRIPT, X, Y) \
  if \
  :: (CODE && copies > 0 && !flies) -> copies--; flies = CODE; waits[me] = 1; \
    late_l = l; late_t = t; late_m = m; late_x = X; late_y = Y; late_w = written \
  :: true \
  fi; \
  !waits[me]; \
  if CRASH :: true fi; \
  d_step { answer = NOTHING; wrote = 0; SCRIPT; hear() }

#define CHECKPOINT(X, Y) \
  CALL(4, checkpoint(l, t, m, X, Y, written), X, Y); \
  if :: answer == LOST -> goto idle :: answer == OK -> written = written | MARK(X, Y) :: else fi

inline hear() {
  from = server;
  if
  :: answer == TAKEN || answer == NEXT ->                  /* common.lua: handed */
    t = R.token[l]; m = HEAD(l); tries = R.tries[l]; decided = R.decided; effect = R.effect; parts = R.parts;
    lane_of[me] = l + 1; token_of[me] = t; fresh[me] = 1; written = 0
  :: answer == OK -> fresh[me] = 1
  :: else
  fi;
  is_stopped = R.stopped[m];
  must_stop = halted[m]
}

/* Waits until the replica has what was written (`bot/queue/scripts.py`). */
inline confirm() {
  if :: lags && wrote && !alone -> lags = 0; forget_copy() :: else fi
}
inline forget_copy() { c_code { memset(&now.S, 0, sizeof(now.S)); } }

/* `Lease.assert_held`. Between it and what follows no time passes: a process that was paused asks again. */
inline assert_held() {
  if
  :: fresh[me]
  :: else -> CALL(3, extend(l, t), 0, 0); if :: answer == LOST -> goto idle :: else fi
  fi
}

inline lay_down() {                                        /* Lanes.lay_down_again, once StoreWatch has noticed */
  R.begun = R.begun | began[me];
  for (at : PRESS .. MESSAGE) { if :: accepted[me] & BIT(at) -> apply(LANE(at), at, 0) :: else fi };
  unnoticed[me] = 0; answer = 0; wrote = 0; at = 0
}

proctype Process(byte me) {
  byte l, t, m, given, tries, written, decided, effect, parts, outcome, from, nonce, at;
  mtype:reply answer;
  bit is_stopped, must_stop, more, dies, wrote;
idle:
  atomic {
    lane_of[me] = 0; token_of[me] = 0; fresh[me] = 0;
    l = 0; t = 0; m = 0; given = 0; tries = 0; written = 0; decided = 0; effect = 0; parts = 0; outcome = 0; from = 0; nonce = 0; answer = 0;
    is_stopped = 0; must_stop = 0; more = 0; dies = 0; wrote = 0
  }
end_idle:
  if
  :: atomic { OFFERS(PRESS) -> given = PRESS }
  :: atomic { OFFERS(AGAIN) -> given = AGAIN }
  :: atomic { OFFERS(MESSAGE) -> given = MESSAGE }
  :: atomic { unnoticed[me] -> lay_down(); goto idle }
  :: atomic { IS_DUE(0) -> l = 0; goto claiming }
  :: atomic { IS_DUE(1) -> l = 1; goto claiming }
  fi;

  /* ingress.accept_message, accept_click */
  atomic { m = given; l = LANE(m); deliveries[m]++; underway[m] = 1; nonce = 3 * m + deliveries[m];
    CALL(1, put(l, m, nonce, 1), nonce, 1) };
  atomic {
    underway[given] = 0;
    if
    :: (failures > 0) -> failures--; goto withdrawing                        /* there was no answer */
    :: (failures > 0 && !alone) -> failures--; goto unconfirmed              /* the replica says nothing in time */
    :: IS_CONFIRMED -> confirm(); acknowledged[given] = 1; if :: alone -> accepted[me] = accepted[me] | BIT(given) :: else fi
    :: else -> goto unconfirmed
    fi;
    given = 0;
    if :: answer == TAKEN -> goto handle :: else -> goto idle fi
  };
unconfirmed:                                               /* Lanes.enqueue_or_claim: not acknowledged */
  MEANWHILE;
  atomic { if :: answer == TAKEN -> CALL(6, retry(l, t, m, 0), 0, 0) :: else fi; goto idle };
withdrawing:                                               /* ingress._withdraw_item */
  MEANWHILE;
  atomic { lane_of[me] = 0; token_of[me] = 0; m = given;
    CALL(2, withdraw(m), 0, 0) };
  atomic {
    if
    :: answer == OK -> refused[given] = 1
    :: answer != OK && IS_CONFIRMED -> confirm(); acknowledged[given] = !alone    /* nobody remembers it */
    :: else -> goto withdrawing                            /* another server has taken over, and is asked */
    fi;
    goto idle
  };

claiming:                                                  /* Worker._claim_lanes */
  atomic { nonce = 30 + 2 * clock + me;
    CALL(0, claim(l, nonce), 0, 0);
    if :: answer == TAKEN -> goto handle :: else -> goto idle fi };

handle:                                                    /* Worker._process_item */
  atomic {
    outcome = NONE; nonce = 0;
    if
    :: tries > MAX_TRIES -> goto give_up
    :: else
    fi;
    if :: (failures > 0) -> failures--; more = 1; goto retrying :: (failures > 0) -> failures--; goto retrying :: true fi;
    if
    :: m == MESSAGE || m == OUTCOME -> goto converse
    :: m < MESSAGE && decided == m && effect > STARTED -> goto committing    /* handle_press */
    :: m < MESSAGE && decided == m && effect <= STARTED -> goto go_on
    :: m < MESSAGE && decided && decided != m -> goto committing             /* refused: already decided */
    :: m < EXPIRY && !decided -> goto decide
    :: m == EXPIRY && !decided -> outcome = EXPIRED; goto show_end           /* ApprovalLifecycle.expire_card */
    fi
  };
decide:                                                    /* _decide_approval: for the engine, begun at once */
  MEANWHILE;
  atomic {
    if :: engine && failures > 0 -> failures--; goto committing :: true fi;  /* its time ran out meanwhile */
    effect = (engine -> STARTED : NONE);
    CHECKPOINT(DECIDE, effect);
    if :: answer == REFUSED -> goto committing :: else -> goto go_on fi
  };
go_on:                                                     /* EffectRunner.carry_out_effect */
  if
  :: engine -> goto keep
  :: !engine && effect == STARTED && parts && !BEGUN(parts) -> goto part     /* outcomes.is_resumable */
  :: !engine && effect == STARTED && !(parts && !BEGUN(parts)) -> outcome = UNKNOWN; goto show_end
  :: !engine && effect != STARTED
  fi;
begin:                                                     /* EffectRunner._start_effect */
  atomic {
    if :: unnoticed[me] -> lay_down() :: else fi;
    !unnoticed[1 - me];                                    /* Lease.begin waits */
    CHECKPOINT(BEGIN, 0);
    if :: answer == REFUSED -> outcome = UNKNOWN; goto show_end :: answer == DOUBTED -> goto begin :: else fi };
  if :: atomic { IS_CONFIRMED -> confirm(); began[me] = began[me] | alone } :: else -> goto begin fi;
act:                                                       /* EffectRunner._execute_tool */
  MEANWHILE;
  if :: several -> goto part :: else fi;
  atomic {
    assert_held();
    if CRASH :: true fi;
    if
    :: mails++; outcome = SUCCEEDED
    :: outcome = FAILED
    :: mails++; outcome = UNKNOWN                          /* EffectUnknownError, and it went out */
    :: outcome = UNKNOWN
    fi;
    if :: outcome != FAILED -> assert(sender == 0 || sender == m); sender = m :: else fi;
    assert(mails <= 1);
    assert(server || R.token[l] == t);                     /* who has lost the lane sends nothing */
    goto show_end
  };
part:                                                      /* send_email: each part is begun, sent, done */
  atomic {
    nonce = 0;
    if
    :: parts & 8 -> outcome = SUCCEEDED; goto show_end
    :: else
    fi;
    if :: unnoticed[me] && parts -> lay_down() :: else fi;
    !parts || !unnoticed[1 - me];
    CHECKPOINT(PART, NEXT_PART(parts));
    if :: answer == REFUSED -> outcome = UNKNOWN; goto show_end :: answer == DOUBTED -> goto part :: else fi
  };
  if
  :: atomic { parts && IS_CONFIRMED -> confirm(); began[me] = began[me] | 2 * alone }
  :: !parts                                                /* a mail that is begun, without any part, is not resumed */
  :: parts && !IS_CONFIRMED -> goto part
  fi;
  MEANWHILE;
  atomic {
    assert_held();
    if CRASH :: true fi;
    if :: parts & 2 -> others++ :: else -> mails++ fi;
    assert(mails <= 1 && others <= 1);
    if :: outcome = UNKNOWN; goto show_end :: true fi
  };
  atomic {
    CHECKPOINT(PART, 2 * NEXT_PART(parts));
    parts = parts | (3 * NEXT_PART(parts));
    goto part
  };
keep:                                                      /* EffectRunner._execute_until_kept */
  atomic { CHECKPOINT(KEPT, 0) };
  if :: atomic { IS_CONFIRMED -> confirm() } :: else -> goto keep fi;
  atomic { confirm_engine(); nonce = SERVERS };
save_change:
  atomic { CALL(8, save(), 0, 0) };
kept:
  atomic { CHECKPOINT(KEPT, 0) };
  if :: atomic { IS_CONFIRMED -> confirm() } :: else -> goto kept fi;
  atomic {
    confirm_engine();
    if :: SERVERS != nonce -> nonce = SERVERS; goto save_change :: else fi;
    nonce = 0; outcome = SUCCEEDED
  };
show_end:                                                  /* ApprovalLifecycle.end_approval */
  MEANWHILE;
  atomic {
    assert_held();
    if
    CRASH
    :: (failures > 0) -> failures--; more = 1; goto retrying
    :: shown = outcome; goto committing
    fi
  };

pressing:                                                  /* ApprovalSets._press_cards */
  if :: R.pressed -> goto committing :: else fi;
  if
  :: !cluster
  :: cluster ->                                            /* Lanes.prepare_writes, as below */
    atomic { l = 0; nonce = m; m = PRESS; CALL(7, apply(l, m, 0), 0, 0); l = 1; m = nonce; nonce = 0 };
    if :: atomic { IS_CONFIRMED -> confirm() } :: else -> goto pressing fi
  fi;
  atomic { CHECKPOINT(SET, 0); goto committing };

converse:                                                  /* bot/conversation/turn.py */
  MEANWHILE;
  atomic {
    if :: set && m == MESSAGE -> goto pressing :: else fi;
    CHECKPOINT(STEP, 0);
    assert(is_stopped == must_stop || server);             /* a stop reaches what was put before it, and nothing else */
    goto committing
  };

give_up:                                                   /* Worker._give_up_item: give_up_press, bury_press */
  atomic {
    dies = 1;
    if
    :: m < MESSAGE && decided == m && effect == NONE -> outcome = (server -> UNKNOWN : FAILED); goto show_end
    :: m < MESSAGE && decided == m && effect == STARTED -> outcome = UNKNOWN; goto show_end
    :: m == EXPIRY && !decided -> outcome = EXPIRED; goto show_end
    :: else
    fi
  };

committing:                                                /* Worker._write_until_stored(Lease.commit) */
  if
  :: !cluster || !TELLS(m, outcome) -> goto popping
  :: cluster && TELLS(m, outcome)
  fi;
elsewhere:                                                 /* Lanes.prepare_writes: in another partition, and first */
  atomic { l = 1 - l; nonce = m;
    if :: m == MESSAGE :: else -> m = OUTCOME fi;
    CALL(7, apply(l, m, (m == MESSAGE)), (m == MESSAGE), 0);
    l = 1 - l; m = nonce; nonce = 0 };
  if :: atomic { IS_CONFIRMED -> confirm() } :: else -> goto elsewhere fi;
popping:
  atomic {
    if :: more = 0 :: more = 1 fi;
    CALL(5, commit(l, t, m, (more + 2 * dies), outcome, written), more + 2 * dies, outcome);
    dies = 0; more = 0;
    if
    :: answer == NEXT -> goto handle
    :: else -> goto idle                                   /* done, or lost: another process has the lane */
    fi
  };

retrying:                                                  /* Worker._retry_later, _release_lane */
  MEANWHILE;
  atomic { CALL(6, retry(l, t, m, more), more, 0); goto idle };
killed:                                                    /* another one is started in its place */
  atomic { underway[given] = 0; accepted[me] = 0; began[me] = 0; unnoticed[me] = 0; goto idle }
}

inline lose_copy() { flies = 0; late_l = 0; late_t = 0; late_m = 0; late_x = 0; late_y = 0; late_w = 0 }

/* Copies of calls, which arrive at any time; the job that moves timers; people who say *stop*. */
proctype Outside() {
  mtype:reply answer;
  byte at;
  bit wrote;
end:
  do
  :: atomic { flies ->
      if
      :: flies == 1 -> put(late_l, late_m, late_x, late_y)
      :: flies == 2 -> withdraw(late_m)
      :: flies == 3 -> extend(late_l, late_t)
      :: flies == 4 -> checkpoint(late_l, late_t, late_m, late_x, late_y, late_w)
      :: flies == 5 -> commit(late_l, late_t, late_m, late_x, late_y, late_w)
      :: flies == 6 -> retry(late_l, late_t, late_m, late_x)
      :: flies == 7 -> apply(late_l, late_m, late_x)
      :: flies == 8 -> save()
      fi;
      lose_copy(); answer = 0; wrote = 0 }
  :: atomic { waits[0] -> waits[0] = 0 }
  :: atomic { waits[1] -> waits[1] = 0 }
  :: atomic { R.timer -> pump(0, EXPIRY); answer = 0 }
  :: atomic { (stops > 0 && R.length[1] > 0) -> stops--; stop(1);
      for (at : 0 .. ROOM - 1) { halted[R.queue[ROOM + at]] = 1 }
      halted[0] = 0; at = 0 }
  od
}

inline tire(L) {
  if :: IS_HELD_BY(0, L) -> fresh[0] = 0 :: else fi;
  if :: IS_HELD_BY(1, L) -> fresh[1] = 0 :: else fi
}

/* Delays end. Leases run out: of dead holders at any time, of living ones that are paused for longer. */
proctype Time() {
end:
  do
  :: atomic { R.when[0] == LATER -> R.when[0] = DUE }
  :: atomic { R.when[1] == LATER -> R.when[1] = DUE }
  :: atomic { R.when[0] == LEASED && !IS_HELD(0) -> R.when[0] = DUE }
  :: atomic { R.when[1] == LEASED && !IS_HELD(1) -> R.when[1] = DUE }
  :: atomic { pauses > 0 && R.when[0] == LEASED && IS_HELD(0) -> pauses--; R.when[0] = DUE; tire(0) }
  :: atomic { pauses > 0 && R.when[1] == LEASED && IS_HELD(1) -> pauses--; R.when[1] = DUE; tire(1) }
  od
}

inline run_out(L) {                                        /* the new master has the time at which the lease ends */
  if :: R.when[L] == LEASED && ((IS_HELD_BY(0, L) && !fresh[0]) || (IS_HELD_BY(1, L) && !fresh[1])) -> R.when[L] = DUE
     :: else
  fi
}

/* The replica is behind, and takes over with what it has. Calls on their way to the other server are lost. */
proctype Replica() {
  bit saved;
end:
  do
  :: atomic { IS_APART && failovers > 0 && !shard_lags -> shard_lags = 1; shard_copy = R.saved }
  :: atomic { shard_lags && failovers -> failovers--; shard++; R.saved = shard_copy; shard_lags = 0; shard_copy = 0 }
  :: atomic { (failovers > 0 && !lags) -> lags = 1; c_code { now.S = now.R; } }
  :: atomic { lags && failovers -> failovers--; server++; lags = 0; saved = R.saved; c_code { now.R = now.S; };
      if :: IS_APART -> R.saved = saved :: else fi; saved = 0; forget_copy(); lose_copy(); run_out(0); run_out(1);
      unnoticed[0] = alone; unnoticed[1] = alone }
  od
}

#define IS_OPEN_AGAIN (alone && server && !R.decided)       /* and people are told: bot/features/lost_decisions.py */

/* When nothing can happen any more. */
proctype End() {
  byte m;
  atomic {
    timeout ->
    assert(R.length[0] == 0 && R.length[1] == 0 && R.when[0] == OUT && R.when[1] == OUT); /* nothing is stuck */
    for (m : 1 .. ITEMS) {
      assert(!acknowledged[m] || R.handled[m] || refused[m]);                /* what was acknowledged is handled */
      assert(!refused[m] || !R.handled[m])                 /* what was called *not taken* is not */
    }
    assert(R.effect != STARTED && (!R.decided || R.effect));                 /* nothing is begun for ever */
    assert(server || shown == R.effect);                   /* the card shows what the record says, */
    assert(IS_OPEN_AGAIN || shown != SUCCEEDED || R.effect == SUCCEEDED || R.effect == UNKNOWN);    /* and never *done* where it is not */
    assert(R.effect != SUCCEEDED || (mails == 1 && others == several) || (engine && R.saved));
    assert(IS_OPEN_AGAIN || mails + others == 0 || R.effect == SUCCEEDED || R.effect == UNKNOWN);     /* what is out is known, or called unknown */
    assert(!R.saved || R.decided);                         /* the engine does nothing that no card knows of */
    assert(!set || !R.handled[MESSAGE] || R.dead[MESSAGE] || (R.pressed && R.handled[PRESS]));   /* a set presses all its cards */
    assert(!R.effect || R.handled[OUTCOME]);               /* whoever waits for the card hears how it ended */
    assert(!R.handled[MESSAGE] || R.effect || R.dead[MESSAGE] || (set && R.dead[PRESS]))     /* a card that nobody presses expires */
  }
}

#define ASKED(NAME) atoi(getenv(NAME))
init { atomic {
  c_code {
    now.engine = ASKED("engine"); now.from_outside = ASKED("from_outside"); now.crashes = ASKED("crashes");
    now.pauses = ASKED("pauses"); now.failures = ASKED("failures"); now.copies = ASKED("copies");
    now.stops = ASKED("stops"); now.failovers = ASKED("failovers"); now.several = ASKED("several");
    now.set = ASKED("set"); now.cluster = ASKED("cluster"); now.alone = ASKED("alone");
  };
  run Process(0); run Process(1); run Outside(); run Time(); run Replica(); run End()
} }

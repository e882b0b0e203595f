/* The store, and what each script of bot/queue/lua does to the lanes in it: one partition.
 *
 * A lane is a queue of items, a place in the schedule, and the state of whoever holds it. Items are numbers from 1; LANE()
 * says where each belongs. A script is one step, as in Redis. Whoever includes this file says how time goes:
 * PLAN(lane, when) enters a lane into the schedule, IS_DUE(lane) asks whether its time has come. IS_DOUBTED: another server has
 * taken over, and not every process has laid down yet what it remembers. */

#define OUT 0      /* not in the schedule: idle */
#define DUE 1
#define LEASED 2   /* due when the lease runs out */
#define LATER 3    /* due after a delay */

mtype:reply = { NEW, DUPLICATE, TAKEN, LOST, OK, REFUSED, DOUBTED, NEXT, DONE, NOTHING };

/* What is known of an item (`dd:`): 0, by which call it was put, that it was withdrawn, or by which token it was committed. */
#define WITHDRAWN 1
#define WRITTEN 2                                          /* put by a write of ours, or by a timer */
#ifndef COMMITTED
#define COMMITTED(token) (100 + (token))                   /* the nonces of calls are smaller */
#endif
#define BIT(n) (1 << (n))

/* Checkpoints, by what they are for, and the mark of each. */
#define DECIDE 1
#define BEGIN 2
#define KEPT 3
#define STEP 4
#define PART 5                                             /* of a mail to several people; Y which, and how far */
#define SET 6                                              /* a press on a set, with the presses on its cards */
#define BEGUN_BY(X, Y) ((X) == BEGIN -> 1 : ((X) == PART && (Y) == 4 -> 2 : 0))   /* of effects that may be remembered */
#define REFUSES(X, Y) (BEGUN_BY(X, Y) && (IS_DOUBTED || (R.begun & BEGUN_BY(X, Y))))      /* writes.lua: begin */
#define MARK(X, Y) ((X) == PART -> 16 * (Y) : BIT((X) % 4))  /* DECIDE, BEGIN, KEPT; STEP or SET in a lane without parts */

/* Effects of a decided card. */
#define NONE 0
#define STARTED 1
#define SUCCEEDED 2
#define FAILED 3
#define UNKNOWN 4
#define EXPIRED 5                                          /* nobody has decided: no effect */

typedef Store {
  NUMBER queue[LANES * ROOM], length[LANES];               /* in:<lane> */
  NUMBER token[LANES], tries[LANES], by[LANES];            /* st:<lane> */
  NUMBER back[LANES], backof[LANES];                       /* st:<lane> back: token and item of a retry */
  byte when[LANES];                                        /* z */
  NUMBER known[ITEMS + 1];                                 /* dd:<item> */
  byte checked[LANES];                                     /* ck:<lane>: marks */
  bit stopped[ITEMS + 1];                                  /* stops:<lane>: items that were put before a stop */
  bit timer, pumped;                                       /* t and td; the mark dd:timer:<id>@<due> */
  NUMBER decided; byte effect;                                   /* apr:<card>: which item decided, what became of it */
  byte parts;                                              /* of a mail to two people: begun 1, 4; done 2, 8 */
  bit saved;                                               /* the engine's answer to the card's key */
  bit pressed;                                             /* set:…: the press on the set, and on its second card */
  byte begun;                                              /* begun:<card>:<seq>: a process remembers that this was begun */
  NUMBER handled[ITEMS + 1];                               /* by which token an item was committed; never read by a script */
  bit dead[ITEMS + 1];                                     /* dead letters */
}
Store R;
NUMBER clock;                                                /* of the server: never goes back, whatever is lost */

#define HEAD(L) R.queue[(L) * ROOM]
#define OWNS(L, T) (R.token[L] == T && !(R.when[L] == DUE && server))   /* nobody else had it on a server that is gone */
#define HOLDS(L, T, M) (OWNS(L, T) && R.length[L] > 0 && HEAD(L) == M)
#define LACKS(L, T, W) (R.token[L] == T && (R.checked[L] & (W)) != (W))  /* a server that took over: common.lua, holds */

inline enqueue(L, M) {
  R.queue[(L) * ROOM + R.length[L]] = M;
  R.length[L]++;
  if :: R.when[L] == OUT -> PLAN(L, DUE) :: else fi
}

inline take(L, X) {                                        /* common.lua: take */
  clock++;
  R.token[L] = clock;
  R.tries[L]++;
  R.by[L] = X;
  R.checked[L] = 0;
  PLAN(L, LEASED)
}

inline release(L) {
  R.token[L] = 0;
  R.by[L] = 0
}

/* The scripts. L lane, T token, M item; X, Y as each says; W marks of the holder's checkpoints of this item. The answer is in `answer`; `wrote` says whether a call that is
 * waited for has written something: WAIT only counts that. */

inline put(L, M, X, Y) {                                   /* put.lua. X nonce, Y a process asks to hold the lane */
  wrote = 1;                                               /* an item that is known is kept for longer */
  if
  :: R.known[M] && R.known[M] != X -> answer = DUPLICATE
  :: R.known[M] && R.known[M] == X -> if :: R.by[L] == X -> answer = TAKEN :: else -> answer = NEW fi
  :: !R.known[M] ->
    R.known[M] = X;
    if :: R.when[L] == OUT && Y -> enqueue(L, M); take(L, X); answer = TAKEN
       :: else -> enqueue(L, M); answer = NEW
    fi
  fi
}

inline withdraw(M) {                                       /* Lanes.withdraw_item */
  if :: !R.known[M] -> R.known[M] = WITHDRAWN :: else fi;
  if :: R.known[M] == WITHDRAWN -> answer = OK :: else -> answer = NEW; wrote = 1 fi
}

inline claim(L, X) {                                       /* claim.lua, with room for this lane only. X nonce */
  if
  :: R.by[L] == X && R.token[L] -> answer = TAKEN
  :: else ->
    if
    :: IS_DUE(L) && R.length[L] == 0 -> PLAN(L, OUT); release(L); R.tries[L] = 0
    :: IS_DUE(L) && R.length[L] > 0 -> take(L, X); answer = TAKEN
    :: else
    fi
  fi
}

inline extend(L, T) {                                      /* extend.lua */
  if :: OWNS(L, T) -> PLAN(L, LEASED); answer = OK :: else -> answer = LOST fi
}

inline checkpoint(L, T, M, X, Y, W) {                      /* checkpoint.lua. X which, Y the effect that it stores */
  if
  :: LACKS(L, T, W) -> answer = LOST; PLAN(L, DUE)
  :: !LACKS(L, T, W) && !HOLDS(L, T, M) -> answer = LOST
  :: else ->
    assert(R.token[L] == T);                               /* only the last to take a lane writes in it */
    answer = OK;
    if
    :: R.checked[L] & MARK(X, Y) -> skip
    :: else ->
      if
      :: REFUSES(X, Y) -> answer = (R.begun & BEGUN_BY(X, Y) -> REFUSED : DOUBTED)
      :: X == DECIDE ->                                    /* writes.lua: decide */
        if
        :: R.decided && R.decided != M -> answer = REFUSED
        :: R.decided == M -> skip
        :: !R.decided -> R.decided = M; R.effect = Y
        fi
      :: X == BEGIN && !REFUSES(X, Y) -> R.decided = M; R.effect = STARTED   /* writes.lua: record, the whole of it */
      :: X == PART && !REFUSES(X, Y) -> R.parts = R.parts | Y
      :: X == SET -> R.pressed = 1; PRESS_FROM_SET
      :: else
      fi;
      if :: answer == OK -> R.checked[L] = R.checked[L] | MARK(X, Y) :: else fi
    fi;
    if :: answer == OK -> PLAN(L, LEASED); wrote = 1 :: else fi
  fi
}

inline commit(L, T, M, X, Y, W) {                          /* commit.lua. X more, + 2 if buried; Y effect to store (0: none) */
  if
  :: R.known[M] == COMMITTED(T) ->
    if :: R.token[L] == T && R.length[L] > 0 -> answer = NEXT :: else -> answer = DONE fi
  :: R.known[M] != COMMITTED(T) && LACKS(L, T, W) -> answer = LOST; PLAN(L, DUE)
  :: R.known[M] != COMMITTED(T) && !LACKS(L, T, W) && !HOLDS(L, T, M) ->
    answer = LOST;
    assert(R.handled[M] != T)                              /* a repeated call has the answer of the first */
  :: else ->
    assert(R.token[L] == T);
    assert(HEAD(L) == M && !R.handled[M]);                 /* in the order of their acceptance, each once */
    if :: Y -> R.decided = M; R.effect = Y; R.timer = 0 :: else fi;
    if :: (X) & 2 -> R.dead[M] = 1 :: else fi;
    BESIDE(L, M, Y);
    R.handled[M] = T;
    R.known[M] = COMMITTED(T);
    for (at : 0 .. ROOM - 2) { R.queue[(L) * ROOM + at] = R.queue[(L) * ROOM + at + 1] }
    R.queue[(L) * ROOM + ROOM - 1] = 0; R.length[L]--; at = 0;
    R.checked[L] = 0;
    R.tries[L] = 0;
    if
    :: R.length[L] > 0 && ((X) & 1) -> R.tries[L] = 1; PLAN(L, LEASED); answer = NEXT
    :: else ->
      release(L);
      answer = DONE;
      if :: R.length[L] > 0 -> PLAN(L, DUE)
         :: else -> PLAN(L, OUT); R.back[L] = 0; R.backof[L] = 0
      fi
    fi
  fi
}

inline retry(L, T, M, X) {                                 /* retry.lua. X count */
  if
  :: T && R.back[L] == T && R.backof[L] == M -> answer = OK
  :: !(T && R.back[L] == T && R.backof[L] == M) && !HOLDS(L, T, M) -> answer = LOST
  :: else ->
    assert(R.token[L] == T);
    if :: !X -> R.tries[L]-- :: else fi;
    R.back[L] = T; R.backof[L] = M;
    release(L); PLAN(L, LATER); answer = OK
  fi
}

inline apply(L, M, X) {                                    /* writes.lua: put, or with X timer; by apply.lua, or in a script */
  wrote = 1;                                               /* its nonce is kept for longer */
  if
  :: X -> R.timer = 1; answer = OK
  :: !X && !R.known[M] -> R.known[M] = WRITTEN; enqueue(L, M); answer = NEW
  :: else -> answer = DUPLICATE
  fi
}

inline pump(L, M) {                                        /* pump.lua: the timer puts this item */
  if
  :: R.timer ->
    R.timer = 0;
    if :: !R.pumped -> R.pumped = 1; R.known[M] = WRITTEN; enqueue(L, M); answer = NEW :: else fi
  :: else
  fi
}

inline stop(L) {                                           /* stop.lua */
  for (at : 0 .. ROOM - 1) { R.stopped[R.queue[(L) * ROOM + at]] = 1 }
  R.stopped[0] = 0; at = 0
}

inline save() { R.saved = 1; answer = OK }                 /* tools/workflow/engine/save.lua, by the card's key */

/* Plays what the scripts wrote down of one lane, call by call, and asserts that each answer is the model's. LEASE, ROOM and
 * ITEMS are the log's. Y of a checkpoint is whether it told of a *stop*, or -1. */

#define NUMBER short
#define LANES 1
#define COMMITTED(token) (10000 + (token))
#define PLAN(L, W) R.when[L] = W; until = (W == LEASED -> now + LEASE : (W == LATER -> now + delay : now))
#define IS_DUE(L) (R.when[L] != OUT && now >= until)
int now, until, delay;                                     /* ms since the log began */
#define server 0                                           /* nobody takes over */
#define IS_DOUBTED 0
#define PRESS_FROM_SET skip
#define BESIDE(L, M, Y) skip
#include "store.pml"

mtype:script = { PUT, WITHDRAW, CLAIM, EXTEND, CHECKPOINT, COMMIT, RETRY, ENQUEUE, STOP };
/* When, which script, token, item, X and Y of the script; its answer, and with a lane: head, token, tries. */
chan calls = [0] of { int, mtype:script, short, short, int, short, mtype:reply, short, short, short };

active proctype Player() {
  mtype:script script;
  mtype:reply answer, said;
  short t, m, y, head, token, tries, at;
  int x, called;
  bit wrote;
end:
  do
  :: calls ? called, script, t, m, x, y, said, head, token, tries ->
    now = called;
    printf("call\n");
    answer = NOTHING;
    if
    :: script == PUT -> put(0, m, x, y)
    :: script == WITHDRAW -> withdraw(m)
    :: script == CLAIM -> claim(0, x)
    :: script == EXTEND -> extend(0, t)
    :: script == CHECKPOINT -> checkpoint(0, t, m, STEP, 0, 0); assert(y < 0 || y == R.stopped[m])
    :: script == COMMIT -> commit(0, t, m, x, 0, 0)
    :: script == RETRY -> delay = x; retry(0, t, m, y)
    :: script == ENQUEUE -> apply(0, m, 0)
    :: script == STOP -> stop(0)
    fi;
    assert(answer == said);
    assert(head == 0 || (head == HEAD(0) && token == R.token[0] && tries == R.tries[0]))
  od
}

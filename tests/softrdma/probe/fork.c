/* SPDX-License-Identifier: BSD-3-Clause */
/* fork: what a child can do with the contexts that it inherited, and that the end of either side does not
 * harm the other.
 *
 * The child's facts come over a pipe, so that one process prints. Registered memory of the parent is left
 * alone in the child. */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A new pair on the inherited contexts, and eight bytes over it: what the child (or the parent) can do from
 * here. */
static int pair_works(void)
{
    struct pair p;
    struct ibv_wc wc;
    int good = 0;
    pair_open(&p, &usual);
    p.a.buf[0] = 123;
    int refused = send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1);
    for (int i = 0; i < 300 && !good && !refused; i++) {
        if (ibv_poll_cq(p.a.send_cq, 1, &wc) == 1)
            good = wc.status ? 2 : p.b.buf[0] == 123 ? 1 : 3;
        else
            pause_ms(1);
    }
    pair_close(&p);
    return refused ? 43 : good;
}

static const char *outcome(int status)
{
    if (WIFSIGNALED(status))
        return strsignal(WTERMSIG(status));
    switch (WEXITSTATUS(status)) {
    case 0:
        return "no completion";
    case 1:
        return "bytes arrived";
    case 2:
        return "error completion";
    case 3:
        return "wrong bytes";
    case 42:
        return "refused";
    case 43:
        return "post_send refused";
    }
    return "ended otherwise";
}

static pid_t child(int (*run)(void))
{
    pid_t pid = fork();
    if (pid)
        return pid;
    alarm(20);
    _exit(run());
}

static const char *child_outcome(int (*run)(void))
{
    int status = 0;
    waitpid(child(run), &status, 0);
    return outcome(status);
}

static int port_answers(void)
{
    struct ibv_port_attr port;
    return ibv_query_port(contexts[0], 1, &port) ? 42 : 1;
}

static int pd_comes_and_goes(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(contexts[0]);
    return !pd || ibv_dealloc_pd(pd) ? 42 : 1;
}

static int own_context_works(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0, found = 0; i < count && found < 2; i++) {
        if (strncmp(ibv_get_device_name(list[i]), "rxe", 3))
            continue;
        contexts[found] = ibv_open_device(list[i]);
        if (!contexts[found])
            return 42;
        pds[found] = ibv_alloc_pd(contexts[found]);
        found++;
    }
    return pair_works();
}

static struct pair *inherited;

static int child_destroys(void)
{
    return ibv_destroy_qp(inherited->a.qp) ? 42 : 1;
}

static int child_sleeps(void)
{
    pause_ms(15000);
    return 0;
}

void ask_fork(void)
{
    fact("fork", "query_port in the child", "%s", child_outcome(port_answers));
    fact("fork", "alloc_pd in the child", "%s", child_outcome(pd_comes_and_goes));
    fact("fork", "new QPs of the child on the inherited contexts", "%s", child_outcome(pair_works));
    fact("fork", "a context of the child's own", "%s", child_outcome(own_context_works));

    struct pair p;
    pair_open(&p, &usual);
    inherited = &p;
    fact("fork", "parent posts", "%s", errno_name(send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 1)));
    fact_begin("fork", "parent's QP after four children came and went");
    pair_watch(&p, 1, 0, 300);
    fact_end();

    pid_t pid = child(child_sleeps);
    fact_begin("fork", "parent's QP while a child lives");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 2);
    pair_watch(&p, 1, 0, 300);
    fact_end();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fact_begin("fork", "parent's QP after the child was killed");
    send_simple(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8, 3);
    pair_watch(&p, 1, 0, 300);
    fact_end();
    fact("fork", "new QPs of the parent after the child was killed", "%s",
         pair_works() == 1 ? "bytes arrived" : "fail");

    fact("fork", "destroy_qp of the parent's QP in the child", "%s", child_outcome(child_destroys));
    fact("fork", "then destroy_qp in the parent", "%s", errno_name(ERRNO_OF_INT(ibv_destroy_qp(p.a.qp))));
    p.a.qp = NULL;
    pair_close(&p);

    /* A child whose parent dies goes on. */
    int results[2];
    char answer = 0;
    if (pipe(results))
        return;
    pid = fork();
    if (!pid) {
        if (!fork()) {
            alarm(20);
            pause_ms(100); /* the parent has gone by then */
            answer = pair_works();
            if (write(results[1], &answer, 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    close(results[1]);
    if (read(results[0], &answer, 1) != 1)
        answer = 99;
    close(results[0]);
    fact("fork", "new QPs of a grandchild whose parent has gone", "%s",
         answer == 1    ? "bytes arrived"
         : answer == 43 ? "post_send refused"
                        : "fail");
}

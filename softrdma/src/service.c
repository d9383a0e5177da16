/* SPDX-License-Identifier: BSD-3-Clause */
/* The service thread. It sleeps unless there is something to do, takes no signals, and holds its process's
 * sign of life. */
#include "service.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "cm/cm.h"
#include "cm/watch.h"
#include "config.h"
#include "event.h"
#include "fabric/agent.h"
#include "fabric/discovery.h"
#include "fault/fault.h"
#include "lock.h"
#include "process.h"
#include "timer.h"

static sem_t started;

/* Everything that is due; returns when the next thing will be. */
static uint64_t work(struct region *r)
{
    uint64_t next = fault_service(r);

    if (atomic_load(&r->events_pending))
        event_write_pending(r);
    event_write_pending_async(r);
    if (atomic_load(&r->ndisassociated))
        event_end_dead(r);
    if (atomic_load(&process_self()->agent_wanted))
        agent_start();
    next = min_u64(next, cm_service(r));
    return min_u64(next, timer_service(r));
}

static void *service_main(void *unused)
{
    struct proc *me = process_self();

    (void)unused;
    prctl(PR_SET_NAME, "softrdma");
    prctl(PR_SET_TIMERSLACK, 1000ul);
    lock_take(&me->life[1]);
    sem_post(&started);
    for (;;) {
        struct pollfd fds[3 + CM_WATCHES] = {
            {process.wake_fd, POLLIN, 0}, {process.listen_fd, POLLIN, 0}, {process.control_fd, POLLIN, 0}};
        uint32_t watched;
        struct timespec left;
        uint64_t next, now;

        atomic_store(&me->woken, 0);
        next = work(process.region);
        watched = cm_watch_fds(fds + 3, CM_WATCHES);
        now = now_ns();
        next = next <= now ? 0 : next - now;
        left = (struct timespec){(time_t)(next / 1000000000u), (long)(next % 1000000000u)};
        if (ppoll(fds, 3 + watched, next > UINT64_C(3600000000000) ? NULL : &left, NULL) <= 0)
            continue;
        if (fds[0].revents)
            fabric_drain_wake(process.wake_fd);
        if (fds[1].revents)
            fabric_answer(process.listen_fd, process.region, process.region_fd);
        if (fds[2].revents)
            fault_answer(process.control_fd);
    }
    return NULL;
}

int service_start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int err;

    sem_init(&started, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* guarded copies need these two */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&thread, &attr, service_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (err)
        return err;
    while (sem_wait(&started) != 0)
        ;
    return 0;
}

void service_wake_all(struct region *r)
{
    for (uint32_t i = 0; i < MAX_PROCS; i++) {
        if (r->proc[i].used)
            fabric_wake(&r->proc[i]);
    }
}

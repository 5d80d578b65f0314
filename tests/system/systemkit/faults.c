/*
 * A disk that fails or is slow, and a wall clock that steps: LD_PRELOAD.
 *
 * What happens stands in the file FAULTS, which is mapped, so that a test can change it at any time. Disk faults are
 * those of syncs of the grid's files; the monotonic clock does not step.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int32_t sync_error;        /* the errno of every sync; 0: none */
    int32_t sync_microseconds; /* how much longer a sync takes */
    int64_t wall_seconds;      /* how far the wall clock is ahead */
    int64_t failed;            /* syncs that were made to fail so far */
};

static volatile struct faults *faults;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        abort();
    faults = mapped;
}

static int of_the_grid(int file)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size < 0 ? 0 : size] = 0;
    return strstr(path, "/data/grid/") != NULL;
}

static int synced(int file, long call)
{
    if (!faults || !of_the_grid(file))
        return (int)syscall(call, file);
    int result = (int)syscall(call, file), error = errno;
    if (faults->sync_microseconds)
        usleep((useconds_t)faults->sync_microseconds);
    if (faults->sync_error) {
        faults->failed++;
        errno = faults->sync_error;
        return -1;
    }
    errno = error;
    return result;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (!result && faults && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += faults->wall_seconds;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);
    if (!result && faults)
        now->tv_sec += faults->wall_seconds;
    return result;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

/* load: MQTT load for the project's own benchmarks. One thread, one epoll, libc only; see ../README.md.
 *
 *   load pubsub   --port N [--shape p2p|fanout|fanin] [--pubs P --subs S --count N --size B --qos Q]
 *                 [--window W --inflight I] [--rate R] [--drip] [--durable] [--seconds T] [--version 4|5]
 *                 --seconds: stop publishing after T seconds, if --count messages each have not been sent before
 *                 --durable: the subscribers' sessions outlive their connections
 *                 --name WORD: what client ids and topics begin with, for several at once
 *                 --readers-port N: the subscribers connect to another node of the same cluster
 *   load connect  --port N --count N --conc C         then holds them until its standard input ends
 *   load retained --port N --count N --subs S
 *
 * One line of JSON on standard output; exit status 1 when anything was lost, came twice or out of order.
 * Every payload begins with publisher (4 bytes), sequence (4 bytes) and the time of sending in ns (8 bytes).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNACK = 2, PUBLISH = 3, PUBACK = 4, PUBREC = 5, PUBREL = 6, PUBCOMP = 7, SUBACK = 9, DISCONNECT = 14 };
enum { IN_SIZE = 1 << 18, STAMP = 16, MAX_EVENTS = 256 };

static struct {
    const char *shape, *name;
    long port, readers_port, version, pubs, subs, count, size, qos, window, inflight, conc, drip, durable;
    double rate, stall, seconds;
} opt = {.shape = "p2p", .name = "load", .version = 4, .pubs = 1, .subs = 1, .count = 1000, .size = 64, .window = 1000,
         .inflight = 100, .conc = 100, .stall = 5};

typedef struct {
    int fd, index;
    bool publisher, dirty, blocked, open;
    uint8_t *in, *out;
    size_t in_len, out_at, out_len, out_cap;
    uint32_t sent, pending;  /* publisher: messages written; QoS 1/2 exchanges under way */
    uint16_t id;
    uint64_t received;       /* subscriber */
    uint32_t *last;          /* subscriber: last sequence of each publisher */
} conn_t;

static int ep;
static conn_t *publishers, *subscribers;
static conn_t **dirty;
static size_t dirty_count;
static uint64_t delivered, expected, disorder, acked;
static uint8_t *frame;        /* template PUBLISH of one publisher at a time */
static size_t frame_len, frame_id, frame_stamp;
static uint64_t histogram[64 * 64];
static uint64_t progress;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    exit(2);
}

/* --- latency: 64 steps to each power of two, so within 1.6 % ----------------------------------------------- */

static void record(uint64_t ns) {
    unsigned top = ns < 64 ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 5;
    size_t at = top * 64 + (size_t)(ns >> top) % 64;
    histogram[at < 4096 ? at : 4095]++;
}

static double percentile_us(double share) {
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < 4096; i++) total += histogram[i];
    if (!total) return 0;
    for (unsigned top = 0; top < 64; top++)
        for (unsigned step = 0; step < 64; step++) {
            seen += histogram[top * 64 + step];
            /* (ns >> top) lies in 32..63 once top > 0, so its low six bits are the value itself */
            if (seen && (double)seen >= share * (double)total) return (double)((uint64_t)step << top) / 1000.0;
        }
    return 0;
}

/* --- packets ------------------------------------------------------------------------------------------------ */

static size_t put_variable(uint8_t *to, size_t value) {
    size_t n = 0;
    do {
        to[n] = value % 128;
        value /= 128;
        if (value) to[n] |= 128;
        n++;
    } while (value);
    return n;
}

static size_t put_packet(uint8_t *to, uint8_t first, const uint8_t *body, size_t length) {
    to[0] = first;
    size_t n = 1 + put_variable(to + 1, length);
    memcpy(to + n, body, length);
    return n + length;
}

static size_t put_text(uint8_t *to, const char *text) {
    size_t n = strlen(text);
    to[0] = (uint8_t)(n >> 8);
    to[1] = (uint8_t)n;
    memcpy(to + 2, text, n);
    return n + 2;
}

static size_t connect_packet(uint8_t *to, const char *client_id, bool durable) {
    uint8_t body[256];
    size_t n = put_text(body, "MQTT");
    body[n++] = (uint8_t)opt.version;
    body[n++] = durable ? 0 : 2; /* clean */
    body[n++] = 0;
    body[n++] = 0; /* no keep-alive */
    if (opt.version == 5) {
        static const uint8_t expiry[] = {5, 0x11, 0, 0, 14, 16}; /* an hour */
        size_t length = durable ? sizeof expiry : 1;
        memcpy(body + n, durable ? expiry : (const uint8_t[]){0}, length);
        n += length;
    }
    n += put_text(body + n, client_id);
    return put_packet(to, 0x10, body, n);
}

static size_t subscribe_packet(uint8_t *to, const char *filter) {
    uint8_t body[256] = {0, 1};
    size_t n = 2;
    if (opt.version == 5) body[n++] = 0;
    n += put_text(body + n, filter);
    body[n++] = (uint8_t)opt.qos;
    return put_packet(to, 0x82, body, n);
}

/* The PUBLISH that every message is a patched copy of. */
static void make_frame(const char *topic, bool retain) {
    size_t body_len = 2 + strlen(topic) + (opt.qos ? 2 : 0) + (opt.version == 5 ? 1 : 0) + (size_t)opt.size;
    free(frame);
    frame = calloc(1, body_len + 8);
    frame[0] = (uint8_t)(0x30 | opt.qos << 1 | retain);
    size_t n = 1 + put_variable(frame + 1, body_len);
    n += put_text(frame + n, topic);
    frame_id = opt.qos ? n : 0;
    n += opt.qos ? 2 : 0;
    if (opt.version == 5) frame[n++] = 0;
    frame_stamp = n;
    memset(frame + n, 'x', (size_t)opt.size);
    frame_len = n + (size_t)opt.size;
}

/* --- connections -------------------------------------------------------------------------------------------- */

static int dial(bool wait, long port) {
    int fd = socket(AF_INET, SOCK_STREAM | (wait ? 0 : SOCK_NONBLOCK), 0), one = 1;
    if (fd < 0) die("socket: %s", strerror(errno));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) die("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void talk(int fd, const uint8_t *packet, size_t length, uint8_t answer) {
    uint8_t reply[512];
    size_t got = 0;
    if (write(fd, packet, length) != (ssize_t)length) die("write: %s", strerror(errno));
    while (got < 2 || got < 2u + reply[1]) { /* answers to CONNECT and SUBSCRIBE are short */
        ssize_t n = read(fd, reply + got, got < 2 ? 2 - got : 2u + reply[1] - got);
        if (n <= 0) die("closed instead of packet type %d", answer);
        got += (size_t)n;
    }
    if (reply[0] >> 4 != answer) die("packet type %d instead of %d", reply[0] >> 4, answer);
    if (answer == CONNACK && reply[3]) die("CONNACK %d", reply[3]);
    if (answer == SUBACK && reply[1 + reply[1]] > 2) die("SUBACK %d", reply[1 + reply[1]]);
}

static void open_conn(conn_t *c, bool publisher, int index, const char *filter) {
    char name[64];
    uint8_t packet[512];
    snprintf(name, sizeof name, "%.32s-%s-%d", opt.name, publisher ? "pub" : "sub", index);
    long port = publisher || !opt.readers_port ? opt.port : opt.readers_port;
    *c = (conn_t){.fd = dial(true, port), .index = index, .publisher = publisher, .open = true};
    c->in = malloc(publisher ? 1 << 14 : IN_SIZE);
    talk(c->fd, packet, connect_packet(packet, name, opt.durable && !publisher), CONNACK);
    if (filter) talk(c->fd, packet, subscribe_packet(packet, filter), SUBACK);
    if (!publisher) c->last = calloc((size_t)opt.pubs, sizeof *c->last);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}

static uint8_t *reserve(conn_t *c, size_t length) {
    if (c->out_at && c->out_at == c->out_len) c->out_at = c->out_len = 0;
    if (c->out_len + length > c->out_cap) {
        c->out_cap = (c->out_len + length) * 2;
        c->out = realloc(c->out, c->out_cap);
    }
    if (!c->dirty) {
        c->dirty = true;
        dirty[dirty_count++] = c;
    }
    uint8_t *at = c->out + c->out_len;
    c->out_len += length;
    return at;
}

static void flush_conn(conn_t *c) {
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) die("send: %s", strerror(errno));
            if (!c->blocked) {
                struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
                epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
                c->blocked = true;
            }
            return;
        }
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_len = 0;
    if (c->blocked) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
        c->blocked = false;
    }
}

static void flush_all(void) {
    for (size_t i = 0; i < dirty_count; i++) {
        dirty[i]->dirty = false;
        flush_conn(dirty[i]);
    }
    dirty_count = 0;
}

/* --- what comes in ------------------------------------------------------------------------------------------ */

static void answer(conn_t *c, uint8_t first, const uint8_t *id) {
    uint8_t *to = reserve(c, 4);
    to[0] = first;
    to[1] = 2;
    to[2] = id[0];
    to[3] = id[1];
}

static void on_publish(conn_t *c, uint8_t first, const uint8_t *body, size_t length, uint64_t now) {
    size_t at = 2 + (size_t)(body[0] << 8 | body[1]), qos = first >> 1 & 3;
    if (qos) {
        answer(c, qos == 1 ? 0x40 : 0x50, body + at);
        at += 2;
    }
    if (opt.version == 5) {
        size_t block = 0, shift = 0;
        do block |= (size_t)(body[at] & 127) << shift, shift += 7;
        while (body[at++] & 128);
        at += block;
    }
    if (at + STAMP > length) die("a message that is not ours");
    uint32_t publisher, sequence;
    uint64_t sent;
    memcpy(&publisher, body + at, 4);
    memcpy(&sequence, body + at + 4, 4);
    memcpy(&sent, body + at + 8, 8);
    if (publisher >= (uint32_t)opt.pubs) die("a message that is not ours");
    if (sequence != c->last[publisher] + 1) disorder++;
    c->last[publisher] = sequence;
    c->received++;
    delivered++;
    record(now - sent);
}

static void on_packet(conn_t *c, uint8_t first, const uint8_t *body, size_t length, uint64_t now) {
    switch (first >> 4) {
    case PUBLISH: on_publish(c, first, body, length, now); break;
    case PUBREC: answer(c, 0x62, body); break;
    case PUBREL: answer(c, 0x70, body); break;
    case PUBACK:
    case PUBCOMP: c->pending--; acked++; break;
    case SUBACK:
        if (body[length - 1] > 2) die("SUBACK 0x%02x", body[length - 1]);
        break;
    case DISCONNECT: die("DISCONNECT 0x%02x", length ? body[0] : 0);
    default: die("packet type %d", first >> 4);
    }
    progress++;
}

static void read_conn(conn_t *c) {
    size_t room = c->publisher ? 1 << 14 : IN_SIZE;
    ssize_t n = recv(c->fd, c->in + c->in_len, room - c->in_len, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) die("the broker closed a %s", c->publisher ? "publisher" : "subscriber");
    size_t end = c->in_len + (size_t)n, at = 0;
    uint64_t now = now_ns();
    while (end - at >= 2) {
        size_t length = 0, head = 1, shift = 0;
        bool whole = false;
        while (at + head < end) {
            uint8_t byte = c->in[at + head++];
            length |= (size_t)(byte & 127) << shift;
            shift += 7;
            if (!(byte & 128)) {
                whole = true;
                break;
            }
        }
        if (!whole || end - at < head + length) break;
        on_packet(c, c->in[at], c->in + at + head, length, now);
        at += head + length;
    }
    memmove(c->in, c->in + at, end - at);
    c->in_len = end - at;
}

static void wait_events(long microseconds) {
    struct epoll_event events[MAX_EVENTS];
    struct timespec pause = {.tv_nsec = microseconds * 1000};
    int n = epoll_pwait2(ep, events, MAX_EVENTS, &pause, NULL);
    for (int i = 0; i < n; i++) {
        conn_t *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) flush_conn(c);
        if (events[i].events & ~(unsigned)EPOLLOUT) read_conn(c);
    }
    flush_all();
}

/* --- publishing --------------------------------------------------------------------------------------------- */

static uint64_t slowest_subscriber(void) {
    uint64_t least = UINT64_MAX;
    for (long i = 0; i < opt.subs; i++)
        if (subscribers[i].received < least) least = subscribers[i].received;
    return least;
}

/* Messages this publisher may send now in the closed loop; an eighth of the window at a time, to be worth a call. */
static uint32_t room(conn_t *p, uint64_t reached) {
    uint64_t way = p->sent - reached;
    uint32_t left = (uint32_t)opt.count - p->sent, least = (uint32_t)(opt.window / 8);
    uint32_t free_now = way >= (uint64_t)opt.window ? 0 : (uint32_t)((uint64_t)opt.window - way);
    if (opt.qos) {
        uint32_t limit = p->pending >= opt.inflight ? 0 : (uint32_t)opt.inflight - p->pending;
        if (limit < free_now) free_now = limit;
        if (least > opt.inflight / 4) least = (uint32_t)(opt.inflight / 4);
    }
    if (free_now > left) free_now = left;
    return free_now < least && free_now < left ? 0 : free_now;
}

static void put_messages(conn_t *p, const char *prefix, uint32_t count, uint64_t now) {
    char topic[64];
    static int made_for = -1;
    if (made_for != p->index) {
        snprintf(topic, sizeof topic, prefix, p->index);
        if (frame && strchr(prefix, '%')) { /* same length for all: only the digits change */
            memcpy(frame + 1 + (frame_len > 129 ? (frame_len > 16386 ? 3 : 2) : 1) + 2, topic, strlen(topic));
        } else {
            make_frame(topic, false);
        }
        made_for = p->index;
    }
    uint8_t *to = reserve(p, frame_len * count);
    for (uint32_t i = 0; i < count; i++, to += frame_len) {
        uint32_t publisher = (uint32_t)p->index, sequence = ++p->sent;
        memcpy(to, frame, frame_len);
        memcpy(to + frame_stamp, &publisher, 4);
        memcpy(to + frame_stamp + 4, &sequence, 4);
        memcpy(to + frame_stamp + 8, &now, 8);
        if (opt.qos) {
            if (!++p->id) p->id = 1;
            to[frame_id] = (uint8_t)(p->id >> 8);
            to[frame_id + 1] = (uint8_t)p->id;
            p->pending++;
        }
    }
}

static bool finished(uint64_t total) {
    return delivered >= expected && (!opt.qos || acked >= total);
}

static void print_result(double seconds, double cpu, uint64_t total) {
    uint64_t lost = expected > delivered ? expected - delivered : 0;
    printf("{\"seconds\": %.4f, \"in_per_s\": %.0f, \"out_per_s\": %.0f, \"lost\": %llu, \"disorder\": %llu, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"load_cpu\": %.3f}\n",
           seconds, (double)total / seconds, (double)delivered / seconds, (unsigned long long)lost,
           (unsigned long long)disorder, percentile_us(0.5), percentile_us(0.99), percentile_us(0.999), cpu / seconds);
    exit(lost || disorder || delivered > expected);
}

static int run_pubsub(void) {
    bool p2p = !strcmp(opt.shape, "p2p"), fanout = !strcmp(opt.shape, "fanout");
    char prefix[48], filter[64];
    snprintf(prefix, sizeof prefix, fanout ? "%.32s/all" : "%.32s/%%06d/x", opt.name);
    uint64_t total = (uint64_t)opt.pubs * (uint64_t)opt.count;
    if (p2p) opt.subs = opt.pubs;
    publishers = calloc((size_t)opt.pubs, sizeof *publishers);
    subscribers = calloc((size_t)opt.subs, sizeof *subscribers);
    dirty = calloc((size_t)(opt.pubs + opt.subs), sizeof *dirty);
    for (int i = 0; i < opt.subs; i++) {
        snprintf(filter, sizeof filter, prefix, i);
        if (!p2p && !fanout) snprintf(filter, sizeof filter, "%.32s/+/x", opt.name);
        open_conn(&subscribers[i], false, i, filter);
    }
    for (int i = 0; i < opt.pubs; i++) open_conn(&publishers[i], true, i, NULL);
    expected = p2p ? total : total * (uint64_t)opt.subs;

    double cpu = cpu_seconds();
    uint64_t began = now_ns(), last_progress = 0, quiet_since = began, end = began, sent = 0;
    bool over = false;
    while (!finished(total)) {
        uint64_t now = now_ns();
        if (!over && opt.seconds > 0 && (double)(now - began) > opt.seconds * 1e9) { /* what was sent is all there is */
            over = true;
            total = 0;
            for (long i = 0; i < opt.pubs; i++) total += publishers[i].sent;
            sent = total;
            expected = p2p ? total : total * (uint64_t)opt.subs;
        }
        long pause = 20000;
        if (over) {
            pause = 20000;
        } else if (opt.rate > 0) {
            uint64_t due = (uint64_t)((double)(now - began) * opt.rate / 1e9) + 1;
            for (; sent < due && sent < total; sent++) {
                put_messages(&publishers[sent % (uint64_t)opt.pubs], prefix, 1, now);
                if (opt.drip) flush_all();
            }
            pause = sent < total ? 50 : 20000;
        } else if (opt.drip) { /* in turns, each message in a send of its own */
            uint64_t reached = slowest_subscriber();
            if (sent < total && sent - reached < (uint64_t)(opt.window * opt.pubs)) {
                for (int i = 0; i < 32 && sent < total; i++, sent++) {
                    conn_t *p = &publishers[sent % (uint64_t)opt.pubs];
                    if (opt.qos && p->pending >= opt.inflight) break;
                    put_messages(p, prefix, 1, now_ns());
                    flush_all();
                }
                pause = 0;
            }
        } else {
            uint64_t reached = p2p ? 0 : slowest_subscriber() / (uint64_t)opt.pubs;
            for (long i = 0; i < opt.pubs; i++) {
                uint64_t own = p2p ? subscribers[i].received : fanout ? reached : subscribers[0].last[i];
                uint32_t more = room(&publishers[i], own);
                if (more) put_messages(&publishers[i], prefix, more, now), pause = 0;
            }
        }
        flush_all();
        wait_events(pause);
        bool pacing = opt.rate > 0 && sent < total;
        if (progress != last_progress || pacing) last_progress = progress, quiet_since = end = now_ns();
        if ((double)(now_ns() - quiet_since) > opt.stall * 1e9) break;
    }
    print_result((double)(end - began) / 1e9, cpu_seconds() - cpu, total);
    return 0;
}

/* --- connect: how fast, and how much each costs -------------------------------------------------------------- */

static int run_connect(void) {
    conn_t *all = calloc((size_t)opt.count, sizeof *all);
    double cpu = cpu_seconds();
    uint64_t began = now_ns();
    long started = 0, done = 0;
    while (done < opt.count) {
        while (started < opt.count && started - done < opt.conc) {
            conn_t *c = &all[started];
            *c = (conn_t){.fd = dial(false, opt.port), .index = (int)started++};
            struct epoll_event e = {.events = EPOLLOUT, .data.ptr = c};
            epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
            c->received = now_ns();
        }
        struct epoll_event events[MAX_EVENTS];
        int n = epoll_wait(ep, events, MAX_EVENTS, 10000);
        if (!n) die("no answer for 10 s, %ld of %ld connected", done, opt.count);
        for (int i = 0; i < n; i++) {
            conn_t *c = events[i].data.ptr;
            if (!c->open) {
                char name[64];
                uint8_t packet[256];
                snprintf(name, sizeof name, "load-%d", c->index);
                size_t length = connect_packet(packet, name, false);
                if (send(c->fd, packet, length, MSG_NOSIGNAL) != (ssize_t)length) die("send: %s", strerror(errno));
                struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
                epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
                c->open = true;
                continue;
            }
            uint8_t reply[512];
            ssize_t got = recv(c->fd, reply, sizeof reply, 0);
            if (got < 4 || reply[0] != 0x20 || reply[3]) die("no CONNACK for connection %d", c->index);
            epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
            record(now_ns() - c->received);
            done++;
        }
    }
    double seconds = (double)(now_ns() - began) / 1e9;
    printf("{\"seconds\": %.4f, \"connects_per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"load_cpu\": %.3f}\n",
           seconds, (double)opt.count / seconds, percentile_us(0.5), percentile_us(0.99), (cpu_seconds() - cpu) / seconds);
    fflush(stdout);
    while (getchar() != EOF) { /* held until told */
    }
    return 0;
}

/* --- retained: set many, then hand them all to new subscribers ---------------------------------------------- */

static int run_retained(void) {
    conn_t pub;
    publishers = &pub;
    opt.pubs = 1;
    opt.qos = 0;
    dirty = calloc((size_t)opt.subs + 1, sizeof *dirty);
    subscribers = calloc((size_t)opt.subs, sizeof *subscribers);
    open_conn(&pub, true, 0, "load/end");
    free(pub.in);
    pub.in = malloc(IN_SIZE);
    pub.last = calloc(1, sizeof *pub.last);
    double cpu = cpu_seconds();
    uint64_t began = now_ns();
    for (long i = 0; i < opt.count; i++) {
        char topic[64];
        snprintf(topic, sizeof topic, "kept/%06ld", i);
        make_frame(topic, true);
        uint8_t *to = reserve(&pub, frame_len);
        memcpy(to, frame, frame_len);
        uint32_t nobody = 0, sequence = (uint32_t)i + 1;
        uint64_t now = now_ns();
        memcpy(to + frame_stamp, &nobody, 4);
        memcpy(to + frame_stamp + 4, &sequence, 4);
        memcpy(to + frame_stamp + 8, &now, 8);
        if (i % 256 == 255) {
            flush_all();
            while (pub.out_len) wait_events(100000);
        }
    }
    make_frame("load/end", false); /* comes back once all before it has been dealt with */
    memset(frame + frame_stamp, 0, 8);
    frame[frame_stamp + 4] = 1;
    memcpy(reserve(&pub, frame_len), frame, frame_len);
    flush_all();
    uint64_t quiet = now_ns();
    while (!pub.received && (double)(now_ns() - quiet) < opt.stall * 1e9) wait_events(20000);
    if (!pub.received) die("the retained messages were not taken in time");
    double set_seconds = (double)(now_ns() - began) / 1e9;

    delivered = disorder = 0;
    began = now_ns();
    uint8_t packet[256];
    for (int i = 0; i < opt.subs; i++) open_conn(&subscribers[i], false, i, NULL);
    expected = (uint64_t)opt.count * (uint64_t)opt.subs;
    for (int i = 0; i < opt.subs; i++) {
        size_t length = subscribe_packet(packet, "kept/#");
        memcpy(reserve(&subscribers[i], length), packet, length);
    }
    flush_all();
    uint64_t last = 0, end = began;
    quiet = now_ns();
    while (delivered < expected && (double)(now_ns() - quiet) < opt.stall * 1e9) {
        wait_events(20000);
        if (delivered != last) last = delivered, quiet = end = now_ns();
    }
    double seconds = (double)(end - began) / 1e9;
    printf("{\"seconds\": %.4f, \"set_per_s\": %.0f, \"deliver_per_s\": %.0f, \"lost\": %llu, \"load_cpu\": %.3f}\n",
           seconds, (double)opt.count / set_seconds, (double)delivered / seconds,
           (unsigned long long)(expected - delivered), (cpu_seconds() - cpu) / (seconds + set_seconds));
    return delivered != expected;
}

int main(int argc, char **argv) {
    static const struct { const char *name; long *whole; double *real; const char **text; } options[] = {
        {"port", &opt.port, 0, 0}, {"readers-port", &opt.readers_port, 0, 0},
        {"version", &opt.version, 0, 0}, {"pubs", &opt.pubs, 0, 0},
        {"subs", &opt.subs, 0, 0}, {"count", &opt.count, 0, 0}, {"size", &opt.size, 0, 0}, {"qos", &opt.qos, 0, 0},
        {"window", &opt.window, 0, 0}, {"inflight", &opt.inflight, 0, 0}, {"conc", &opt.conc, 0, 0},
        {"rate", 0, &opt.rate, 0}, {"seconds", 0, &opt.seconds, 0}, {"stall", 0, &opt.stall, 0}, {"shape", 0, 0, &opt.shape},
        {"name", 0, 0, &opt.name}};
    if (argc < 2) die("usage: load pubsub|connect|retained --port N ...");
    for (int i = 2; i < argc; i++) {
        size_t k, n = sizeof options / sizeof *options;
        if (!strcmp(argv[i], "--drip")) {
            opt.drip = 1;
            continue;
        }
        if (!strcmp(argv[i], "--durable")) {
            opt.durable = 1;
            continue;
        }
        for (k = 0; k < n; k++)
            if (!strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, options[k].name)) break;
        if (k == n || i + 1 == argc) die("what is '%s'?", argv[i]);
        const char *value = argv[++i];
        if (options[k].whole) *options[k].whole = atol(value);
        if (options[k].real) *options[k].real = atof(value);
        if (options[k].text) *options[k].text = value;
    }
    if (opt.size < STAMP) die("--size is at least %d", STAMP);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    ep = epoll_create1(0);
    if (!strcmp(argv[1], "pubsub")) return run_pubsub();
    if (!strcmp(argv[1], "connect")) return run_connect();
    if (!strcmp(argv[1], "retained")) return run_retained();
    die("what is '%s'?", argv[1]);
}

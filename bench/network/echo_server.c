/* The other end of the network benchmark: answers every request with bytes made beforehand.
 *
 *   echo_server KEY=FILE...
 *
 * Prints its port. Each connection has a thread, which reads size-prefixed requests and answers with the frame of
 * FILE for the request's API key; only the correlation id is put in. As little work as a server can do.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KEYS = 128, REQUEST_MAX = 1 << 16 };

static struct { char *bytes; uint32_t size; } answers[KEYS];

static void load(const char *argument) {
    int key = atoi(argument);
    const char *path = strchr(argument, '=');
    FILE *file = path && key >= 0 && key < KEYS ? fopen(path + 1, "rb") : NULL;
    if (!file) { fprintf(stderr, "cannot use %s\n", argument); exit(2); }
    fseek(file, 0, SEEK_END);
    answers[key].size = (uint32_t)ftell(file);
    answers[key].bytes = malloc(answers[key].size);
    rewind(file);
    if (!answers[key].bytes || fread(answers[key].bytes, 1, answers[key].size, file) != answers[key].size) exit(2);
    fclose(file);
}

static int read_all(int fd, char *into, size_t size) {
    while (size) {
        ssize_t got = read(fd, into, size);
        if (got <= 0) return 0;
        into += got;
        size -= (size_t)got;
    }
    return 1;
}

static int write_all(int fd, struct iovec *parts, int count) {
    while (count) {
        ssize_t put = writev(fd, parts, count);
        if (put < 0) return 0;
        while (count && (size_t)put >= parts->iov_len) {
            put -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + put;
            parts->iov_len -= (size_t)put;
        }
    }
    return 1;
}

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument, yes = 1;
    uint32_t size;
    char request[REQUEST_MAX];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    while (read_all(fd, (char *)&size, 4)) {
        size = ntohl(size);
        if (size < 8 || size > REQUEST_MAX || !read_all(fd, request, size)) break;
        int key = (unsigned char)request[0] << 8 | (unsigned char)request[1];
        if (key >= KEYS || !answers[key].bytes) break;
        uint32_t prefix = htonl(answers[key].size);
        struct iovec parts[3] = {
            {&prefix, 4}, {request + 4, 4}, {answers[key].bytes + 4, answers[key].size - 4}};
        if (!write_all(fd, parts, 3)) break;
    }
    close(fd);
    return NULL;
}

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    for (int i = 1; i < count; i++) load(arguments[i]);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) return 1;
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd)) close(fd);
        else pthread_detach(thread);
    }
}

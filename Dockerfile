# A static binary on an image without a shell. Build: docker build -t outbox . ; docs/deploying.md tells how it runs with a read-only root file system.
# The images are named by tag: pin them by digest where you build, as `docker buildx imagetools inspect IMAGE` prints it.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git, by which the go command knows version and commit.
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /outbox ./cmd/outbox

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="outbox" \
      org.opencontainers.image.description="From a PostgreSQL transaction to Kafka: always, in order, soon" \
      org.opencontainers.image.source="https://github.com/outbox-relay/outbox" \
      org.opencontainers.image.documentation="https://github.com/outbox-relay/outbox/blob/main/docs/deploying.md" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="gcr.io/distroless/static-debian12:nonroot"
COPY --from=build /outbox /outbox
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENV OUTBOX_LISTEN=:9090
EXPOSE 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/outbox", "healthcheck"]
ENTRYPOINT ["/outbox"]
CMD ["relay"]

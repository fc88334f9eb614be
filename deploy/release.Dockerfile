# The image of a release: the binary that the archives have, on the base of the Dockerfile. goreleaser builds it.
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
COPY outbox /outbox
USER 65532:65532
ENV OUTBOX_LISTEN=:9090
EXPOSE 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/outbox", "healthcheck"]
ENTRYPOINT ["/outbox"]
CMD ["relay"]

# A static binary on an image without a shell. Build: docker build -t outbox .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /outbox ./cmd/outbox

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /outbox /outbox
EXPOSE 9090
ENTRYPOINT ["/outbox"]
CMD ["relay", "--listen", ":9090"]

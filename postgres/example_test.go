package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/postgres"
)

// A token that lives for minutes, such as one of RDS IAM, is the password of new connections only: BeforeConnect is asked for each, those of the source too. With
// AWS' library the token is auth.BuildAuthToken(ctx, "db.example:5432", "eu-central-1", "relay", credentials), which signs it here without asking anybody.
func ExampleNew_tokens() {
	ctx := context.Background()
	dsn := "postgres://relay@db.example:5432/shop?sslmode=verify-full&sslrootcert=/etc/rds/global-bundle.pem"
	token := func(context.Context) (string, error) { return os.Getenv("TOKEN"), nil }

	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		log.Fatal(err)
	}
	roots := postgres.RereadRoots(dsn)
	cfg.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) (err error) {
		if cc.Password, err = token(ctx); err != nil {
			return fmt.Errorf("make a token for the database: %w", err)
		}
		return roots(ctx, cc)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	source, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	// relay.New(source, publisher, relay.Config{}) goes on from here.
}

package cli_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/cli"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// TestMain makes the test binary the command outbox for the scripts.
func TestMain(m *testing.M) {
	testscript.Main(pgtest.Runner{M: m}, map[string]func(){
		"outbox": func() {
			os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
	})
}

// Each script has a database and a broker of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

func runScript(t *testing.T, file string) {
	db := pgtest.New(t, pgtest.Empty)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Setup: func(env *testscript.Env) error {
			env.Setenv("DB", db.URL)
			env.Setenv("DATABASE_URL", db.URL)
			env.Setenv("KAFKA_BROKERS", strings.Join(cluster.ListenAddrs(), ","))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sql": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(execSQL(db.URL, args)) },
			"topic": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(makeTopic(cluster.ListenAddrs(), args))
			},
			"record": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(writeRecord(cluster.ListenAddrs(), args))
			},
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

const stepLimit = time.Minute

// execSQL runs: sql 'statement'…
func execSQL(url string, statements []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// makeTopic runs: topic NAME [MAX.MESSAGE.BYTES]
func makeTopic(brokers, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	config := map[string]*string{}
	if len(args) > 1 {
		if _, err := strconv.Atoi(args[1]); err != nil {
			return err
		}
		config["max.message.bytes"] = &args[1]
	}
	_, err = kadm.NewClient(client).CreateTopic(ctx, 3, 1, config, args[0])
	return err
}

// writeRecord runs: record TOPIC PARTITION KEY VALUE [NAME=VALUE]…, with null for a key or value that is none. NAME:4=N and NAME:8=N have a value of so many bytes, as Spring writes
// numbers. Go's escapes, such as \x1b, are read.
func writeRecord(brokers, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	partition, err := strconv.ParseInt(args[1], 10, 32)
	if err != nil {
		return err
	}
	r := &kgo.Record{Topic: args[0], Partition: int32(partition), Key: scriptBytes(args[2]), Value: scriptBytes(args[3])}
	for _, arg := range args[4:] {
		name, value, _ := strings.Cut(arg, "=")
		h := kgo.RecordHeader{Key: name, Value: scriptBytes(value)}
		if number, size := strings.CutSuffix(name, ":4"); size {
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return err
			}
			h = kgo.RecordHeader{Key: number, Value: binary.BigEndian.AppendUint32(nil, uint32(n))}
		} else if number, size := strings.CutSuffix(name, ":8"); size {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return err
			}
			h = kgo.RecordHeader{Key: number, Value: binary.BigEndian.AppendUint64(nil, n)}
		}
		r.Headers = append(r.Headers, h)
	}
	return client.ProduceSync(ctx, r).FirstErr()
}

func scriptBytes(s string) []byte {
	if s == "null" {
		return nil
	}
	if text, err := strconv.Unquote(`"` + s + `"`); err == nil {
		return []byte(text)
	}
	return []byte(s)
}

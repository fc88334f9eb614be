package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
)

// report is what the tables of the three services say.
type report struct {
	Orders, Paid, Declined, Shipped int
	// Open orders are neither declined nor shipped, as far as the order service knows.
	Open int
	// PaidTwice, ShippedTwice and ToldTwice count orders with more than one payment or shipment, or that were told of one more than once.
	PaidTwice, ShippedTwice, ToldTwice int
	// Before and After are the customers' money in cents, Taken what payments have taken of it.
	Before, Taken, After int64
	// Differences are orders that one service takes for paid or shipped and another one does not.
	Differences int
	// Kills counts how often each process was killed.
	Kills map[string]int
}

// sound tells whether every order was paid once and shipped once, or declined, and no money is lost.
func (r report) sound() bool {
	return r.Open == 0 && r.PaidTwice+r.ShippedTwice+r.ToldTwice+r.Differences == 0 &&
		r.Orders == r.Paid+r.Declined && r.Paid == r.Shipped && r.Before-r.Taken == r.After
}

// openOrders counts orders that something is still to become of, and those that there are.
func (p *place) openOrders(ctx context.Context) (open, placed int, err error) {
	err = p.ask(ctx, "order", `SELECT count(*) FILTER (WHERE declined + shipped = 0 OR shipped > 0 AND paid = 0), count(*) FROM orders`, &open, &placed)
	return open, placed, err
}

// judge reads the tables.
func (p *place) judge(ctx context.Context) (r report, err error) {
	r.Before = customers * p.opening
	if r.Open, r.Orders, err = p.openOrders(ctx); err != nil {
		return r, err
	}
	for _, q := range []struct {
		service, query string
		into           []any
	}{
		{"order", `SELECT count(*) FILTER (WHERE paid > 0), count(*) FILTER (WHERE declined > 0), count(*) FILTER (WHERE greatest(paid, declined, shipped) > 1 OR paid > 0 AND declined > 0) FROM orders`,
			[]any{&r.Paid, &r.Declined, &r.ToldTwice}},
		{"payment", `SELECT count(*) FROM (SELECT FROM payment GROUP BY order_id HAVING count(*) > 1) p`, []any{&r.PaidTwice}},
		{"payment", `SELECT coalesce(sum(amount), 0)::bigint FROM payment`, []any{&r.Taken}},
		{"payment", `SELECT sum(balance)::bigint FROM account`, []any{&r.After}},
		{"shipping", `SELECT count(DISTINCT order_id) FROM shipment`, []any{&r.Shipped}},
		{"shipping", `SELECT count(*) FROM (SELECT FROM shipment GROUP BY order_id HAVING count(*) > 1) s`, []any{&r.ShippedTwice}},
	} {
		if err := p.ask(ctx, q.service, q.query, q.into...); err != nil {
			return r, err
		}
	}
	r.Differences, err = p.differences(ctx)
	return r, err
}

// differences compares the services, order by order.
func (p *place) differences(ctx context.Context) (n int, err error) {
	var paid, payments, shipped, shipments []string
	for _, q := range []struct {
		service, query string
		into           *[]string
	}{
		{"order", `SELECT array_agg(id || ' ' || amount ORDER BY id) FROM orders WHERE paid > 0`, &paid},
		{"payment", `SELECT array_agg(DISTINCT order_id || ' ' || amount) FROM payment`, &payments},
		{"order", `SELECT array_agg(id) FROM orders WHERE shipped > 0`, &shipped},
		{"shipping", `SELECT array_agg(DISTINCT order_id) FROM shipment`, &shipments},
	} {
		if err := p.ask(ctx, q.service, q.query, q.into); err != nil {
			return 0, err
		}
	}
	return unlike(paid, payments) + unlike(shipped, shipments), nil
}

// unlike counts what is in one list only.
func unlike(a, b []string) (n int) {
	in := map[string]int{}
	for _, s := range a {
		in[s]++
	}
	for _, s := range b {
		in[s]--
	}
	for _, count := range in {
		if count != 0 {
			n++
		}
	}
	return n
}

func (p *place) ask(ctx context.Context, service, query string, into ...any) error {
	conn, err := pgx.Connect(ctx, p.database(service))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, query).Scan(into...); err != nil {
		return fmt.Errorf("ask the database of %s: %w", service, err)
	}
	return nil
}

// print shows the table.
func (r report) print(out io.Writer) {
	verdict := "every order was paid once and shipped once, or declined, and the sums are equal"
	if !r.sound() {
		verdict = "SOMETHING IS WRONG"
	}
	killed := 0
	for _, n := range r.Kills {
		killed += n
	}
	fmt.Fprintf(out, `
  orders              %10d
  declined            %10d
  paid                %10d
  shipped             %10d
  still open          %10d
  money before        %10s
  taken               %10s
  money after         %10s
  duplicates          %10d   paid twice %d, shipped twice %d, told twice %d
  differences         %10d   between what the services know
  processes killed    %10d

%s
`, r.Orders, r.Declined, r.Paid, r.Shipped, r.Open, money(r.Before), money(r.Taken), money(r.After),
		r.PaidTwice+r.ShippedTwice+r.ToldTwice, r.PaidTwice, r.ShippedTwice, r.ToldTwice, r.Differences, killed, verdict)
}

func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

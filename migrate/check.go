package migrate

import "context"

func check(ctx context.Context, q Querier, t Table) ([]Difference, error) { return nil, nil }

func missingHeaders(ctx context.Context, q Querier, t Table) ([]Difference, error) { return nil, nil }

package inbox

import (
	"fmt"
	"time"
)

// Record is a record as Kafka has it. Nobody may change it.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	// Key and Value are nil where Kafka's are null.
	Key, Value []byte
	Headers    []Header
}

// Header is one header of a record; a name may occur more than once.
type Header struct {
	Key   string
	Value []byte
}

// Header returns the value of the last header of that name, as Kafka's clients do.
func (r *Record) Header(name string) (value []byte, ok bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == name {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}

// Place is where the record is.
func (r *Record) Place() Place { return Place{Partition{r.Topic, r.Partition}, r.Offset} }

// Partition names a partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string { return fmt.Sprintf("%s, partition %d", p.Topic, p.Number) }

// Place names a record.
type Place struct {
	Partition
	Offset int64
}

func (p Place) String() string { return fmt.Sprintf("%s, offset %d", p.Partition, p.Offset) }

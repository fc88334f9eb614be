// Package operate is what operators can see and do, in one service behind the command line, the JSON API and the pages, so that all of them have the same
// powers, the same words and the same errors. It knows neither SQL nor Kafka nor HTTP: package postgres implements [Store], package kafka
// [Cluster].
//
// Looking changes nothing and is allowed to a viewer. Everything else is allowed to an operator or an admin, asks for a reason where something is given up, and leaves a row in
// outbox.audit that is written before the change and completed after it, so that no change is without one.
//
// What touches an event that is unpublished is never done here: it is a request, a row of outbox.request, that the relay which owns the key's lane
// carries out when nothing of the key is in flight. So no verb ever races a publish. Only where no relay is alive is it carried out on the spot,
// by whoever asks, who then owns the lane for that long.
package operate

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loop that packets go round in; what is in it besides the program is what a driver does. */

struct timespec {
	long seconds;
	long nanoseconds;
};

extern int clock_gettime(s32 clock, struct timespec *time);

inline_always u64 read_clock(s32 clock)
{
	struct timespec time = { 0, 0 };

	clock_gettime(clock, &time);
	return (u64)time.seconds * 1000000000u + (u64)time.nanoseconds;
}

u64 user_run(struct user_job *job);
u64 user_run_one(struct user_job *job);

inline_always void receive(struct user_frame *frame, const struct user_buffer *buffer)
{
	frame->hard_start = buffer->hard_start;
	frame->hard_end = buffer->hard_end;
	frame->data = buffer->data;
	frame->data_end = buffer->data_end;
	frame->data_meta = buffer->data_meta;
	frame->frag_count = buffer->frag_count;
	for (u32 i = 0; i < buffer->frag_count; i++)
		frame->frags[i] = buffer->frags[i];
	if (buffer->original)
		copy_bytes(buffer->data_meta, buffer->original, buffer->original_bytes);
}

/* Runs a job; answers the elapsed nanoseconds, and in the job what came of it. */
u64 user_run(struct user_job *job)
{
	u64 (*program)(struct user_frame *) = job->program;
	struct user_frame *frame = job->frame;
	struct user_state *state = frame->state;
	u64 actions[USER_ACTIONS] = { 0 }, packet, start;
	u32 next = 0;

	/* Programs' own stacks lie beyond it. */
	((volatile u8 *)__builtin_alloca(job->stack_shift + 1))[0] = 0;
	start = read_clock(job->clock);
	for (packet = 0; packet < job->packets; packet++) {
		u32 action;

		receive(frame, &job->buffers[next]);
		if (++next == job->buffer_count)
			next = 0;
		state->tail_calls = 0;
		action = (u32)program(frame);
		if (unlikely(state->fault))
			break;
		actions[min_of(action, USER_ACTIONS - 1u)]++;
	}
	start = read_clock(job->clock) - start;
	job->done = packet;
	copy_bytes(job->actions, actions, sizeof(actions));
	return start;
}

/* Runs the first buffer's packet once and leaves the frame as the program left it; its retval. */
u64 user_run_one(struct user_job *job)
{
	struct user_state *state = job->frame->state;

	receive(job->frame, job->buffers);
	state->tail_calls = 0;
	state->fault = USER_FAULT_NONE;
	state->redirect_kind = USER_REDIRECT_NONE;
	return job->program(job->frame);
}

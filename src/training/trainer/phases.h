/* Codes for weft_comm_publish() that name the work of a rank between the actions of its
 * schedule.  Values below these codes are positions of actions in the schedule. */
#ifndef TRAINING_TRAINER_PHASES_H
#define TRAINING_TRAINER_PHASES_H

enum wf_phase {
    WF_PHASE_END = 1 << 30,
    WF_PHASE_UPDATE,
    WF_PHASE_SAVE,
    WF_PHASE_START,
    WF_PHASE_SAMPLE
};

#endif
